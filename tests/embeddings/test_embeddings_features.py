"""Items to vectors: each computed once, side by side, refused where they are not the model's."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

from endpoints import Loopback
from palate.embeddings import build_features, plain_item
from palate.embeddings.features import style_of
from palate.engines import LocalModel, Reader
from palate.errors import EngineError, SpecError
from palate.records import Message, Settings
from palate.session import Session, default_session
from palate.specs import Reference

ITEMS = [
    plain_item((Message(role="user", content="Tea or coffee?"),), text)
    for text in ("tea", "coffee, black", "tea")
]
EXACT = Settings(dtype="float32")
COMPILED = {"compile": "on"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))


def test_the_last_hidden_state_is_the_models_own(tiny):
    folder = tiny.model()
    features = build_features([folder], default_session(), EXACT)
    found = features.table(ITEMS)
    local = LocalModel(Reader(Reference.parse(folder), EXACT), "causal")
    reader = features.sources[0].reader
    for item, vector in zip(ITEMS, found, strict=True):
        ids = reader.template.conversation(item.question, item.response)
        plain = local.model.base_model(input_ids=local.torch.tensor([list(ids)]))
        own = plain.last_hidden_state[0, -1].detach().numpy()
        assert vector == pytest.approx(own, rel=2e-3, abs=2e-3), "float16 on disk"


def test_a_vector_is_computed_once(tiny, monkeypatch):
    folder = tiny.model()
    features = build_features([folder], default_session(), EXACT)
    assert features.fill(ITEMS) == 2, "one text stands twice"
    again = build_features([folder], default_session(), EXACT)
    monkeypatch.setattr(LocalModel, "hidden", lambda *given, **named: pytest.fail("computed again"))
    assert again.fill(ITEMS) == 0
    assert np.array_equal(again.table(ITEMS)[0], again.table(ITEMS)[2])


def test_sources_stand_side_by_side_and_style_needs_no_model(tiny):
    features = build_features([tiny.model(), "style"], default_session(), EXACT)
    table = features.table(ITEMS)
    assert table.shape == (3, features.width) == (3, sum(features.widths))
    assert np.array_equal(table[0, -16:], style_of("tea"))
    assert features.prompts(ITEMS).shape == table.shape


def test_precision_is_part_of_where_vectors_are_kept_and_not_of_what_they_mean(tiny):
    exact, coarse, compiled = (
        build_features([tiny.model()], default_session(), settings)
        for settings in (EXACT, Settings(dtype="bfloat16"), EXACT.model_copy(update=COMPILED))
    )
    assert exact.meaning == coarse.meaning == compiled.meaning
    assert len({exact.fingerprint, coarse.fingerprint, compiled.fingerprint}) == 3


def test_what_is_too_long_for_the_model_has_no_vector(tiny):
    long = plain_item((Message(role="user", content="Tea?"),), "tea " * 3000)
    table = build_features([tiny.model()], default_session(), EXACT).table([ITEMS[0], long])
    assert np.isfinite(table[0]).all()
    assert np.isnan(table[1]).all()


@contextmanager
def answering(vectors, cache=None, **more):
    """Give the features of an endpoint, and the server: `vectors` of texts, or data as it is."""

    def answer(path, body):
        assert path.endswith("/embeddings")
        data = vectors(body["input"]) if callable(vectors) else vectors
        if callable(vectors):
            data = [{"index": k, "embedding": vector} for k, vector in enumerate(data)]
        return 200, {"data": data[::-1], **more}

    with Loopback(answer) as server, Session(cache=cache) as session:
        spec = f"api:m?base_url={server.url}/v1&retries=0"
        yield build_features([spec], session, EXACT), server


def test_an_endpoint_gives_vectors_in_the_order_of_the_texts():
    with answering(lambda texts: [[len(text), 1.0] for text in texts]) as (features, _):
        assert features.width == 2
        assert features.table(ITEMS)[:, 0].tolist() == [3.0, 13.0, 3.0]


def test_another_model_that_answers_is_a_note():
    with answering(lambda texts: [[1.0, 2.0]] * len(texts), model="other") as (features, _):
        features.table(ITEMS)
    assert features.notes == ("m was asked, and other answered",)


def test_a_model_behind_a_name_that_is_another_one_now_is_a_note(tmp_path):
    names = ["m-1"]

    def answer(path, body):
        rows = [{"index": k, "embedding": [1.0, k]} for k in range(len(body["input"]))]
        return 200, {"data": rows, "model": names[-1]}

    said = "m was m-1 and is m-2 now: what is kept may be of both models"
    with Loopback(answer) as server:
        spec = f"api:m?base_url={server.url}/v1"
        for k, name in enumerate(["m-1", "m-1", "m-2"]):
            names.append(name)
            with Session(cache=tmp_path) as session:
                features = build_features([spec], session, EXACT)
                features.table([plain_item((), f"text {k}"), plain_item((), f"and {k}")])
                assert (said in features.notes) == (name == "m-2")


@pytest.mark.parametrize("n", [2, 3])
def test_one_vector_for_all_texts_is_none(n, caplog):
    with answering(lambda texts: [[0.6, 0.8]] * len(texts)) as (features, _):
        table = features.table([plain_item((), f"text {k}") for k in range(n)])
    assert np.isnan(table).all() == (n == 3)
    assert ("all texts have the same vector" in caplog.text) == (n == 3)


def test_an_endpoint_that_leaves_a_text_out_is_an_error():
    refused = pytest.raises(EngineError, match="no embedding for")
    with answering([]) as (features, _), refused:
        features.table(ITEMS)


WITHOUT = [
    ([0.1, None], "embedding holds what is no number"),
    (None, "embedding is no list of numbers"),
    ([], "embedding is no list of numbers"),
    ([0.0, 0.0], "embedding is all zeros"),
    ([0.5, float("nan")], "embedding holds what is not finite"),
    ([1e300, 1.0], "embedding holds what is not finite"),
    ([10**400, 1.0], "embedding holds what is not finite"),
    (["0.1", 1.0], "embedding holds what is no number"),
    ([True, 1.0], "embedding holds what is no number"),
    ([0.1, 0.2, 0.3], "embedding has 3 numbers, not 2"),
    ("AACAPwAAAEA=", "embedding is no list of numbers but a text, as in base64"),
]


@pytest.mark.parametrize(("vector", "reason"), WITHOUT)
def test_a_text_without_a_usable_vector_is_left_out_counted_and_not_kept(
    tmp_path, caplog, vector, reason
):
    def vectors(texts):
        return [vector if text == "coffee, black" else [len(text), 1] for text in texts]

    with answering(vectors, tmp_path / "c") as (features, server):
        table = features.table(ITEMS)
        asked = len(server.seen)
        again = features.table(ITEMS)
        assert len(server.seen) == asked + 1, "what had no vector is asked again"
    assert np.isnan(table[1]).all()
    assert table[[0, 2]].tolist() == again[[0, 2]].tolist() == [[3.0, 1.0]] * 2
    assert f"1 of 2 texts are left out: {reason}" in caplog.text
    assert len(list((tmp_path / "c").rglob("??/*"))) == 1, "the width alone"


@pytest.mark.parametrize("index", [[0, 0, 2], [1, 2, 3], [None, 1, 2], ["0", 1, 2], [0, 1]])
def test_vectors_whose_places_are_not_told_are_none(index):
    refused = pytest.raises(EngineError, match="the reply's index")
    with answering([{"index": k, "embedding": [1.0]} for k in index]) as (features, _), refused:
        features.table(ITEMS)


def test_texts_that_a_server_cuts_are_left_out(caplog):
    long = plain_item((), "Green tea is what I like to drink. " * 50)
    used = {"prompt_tokens": 16, "total_tokens": 9}
    with answering(lambda texts: [[1.0, 2.0]] * len(texts), usage=used) as (features, _):
        table = features.table([ITEMS[0], long])
    assert np.isnan(table).all()
    assert "2 of 2 texts are left out: the server cut the prompt (prompt_tokens 16)" in caplog.text


def test_no_embedder_is_said():
    with pytest.raises(SpecError, match="--embedder"):
        build_features([], default_session(), EXACT)
