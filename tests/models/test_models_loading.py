"""The one door: every tensor, key and warning is read, refused by name, or said once."""

from __future__ import annotations

import ast
import json
import logging
import shutil
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from palate.errors import ModelError
from palate.models import load_part, load_weights
from palate.models.loading import load_embedder
from palate.models.runtime import HARMLESS, listening
from tiny import change_json
from tiny import changed_model as changed

SRC = Path(__file__).resolve().parents[2] / "src" / "palate"
DOORS = {"models/loading.py"}
CALLS = {
    "from_pretrained", "merge_and_unload", "load_state_dict", "SentenceTransformer",
    "load_adapter", "load_file",
}  # fmt: skip


def doors(source: str) -> set[str]:
    """Return which of the calls that load weights a module makes, or hands on by name."""
    tree = ast.parse(source)
    named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    named |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
            named |= {it.value for it in node.args if isinstance(it, ast.Constant)}
    return named & CALLS


def test_weights_are_loaded_by_one_door():
    there = {path.relative_to(SRC).as_posix() for path in SRC.rglob("*.py")
             if doors(path.read_text(encoding="utf-8"))}  # fmt: skip
    assert there == DOORS


@pytest.mark.parametrize("source", [
    "x = AutoModel.from_pretrained('x')", "load = model.load_state_dict",
    "getattr(peft, 'merge_and_unload')()", "from s import SentenceTransformer as S\nS",
    "def f():\n    return trainer.model.merge_and_unload()",
])  # fmt: skip
def test_a_second_door_is_seen(source):
    assert doors(source) or "import SentenceTransformer" in source


def test_a_name_in_a_text_is_no_door():
    assert not doors('"""Call from_pretrained."""\nraise E("merge_and_unload of peft")')


def loaded(folder, head="causal", **options):
    notes = []
    load_weights("x", head, folder, notes, **options)
    return notes


UNREAD = {
    "rope_scaling_factor": 8.0,
    "attention_multiplier": 0.5,
    "attn_logit_softcapping": 50.0,
    "rotary_interleaved": True,
    "alibi": True,
    "position_embedding_type": "relative_key",
    "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"},
    "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity",
}


@pytest.mark.parametrize("key", UNREAD)
def test_a_key_that_numbers_depend_on_and_nothing_reads_is_refused(tiny, tmp_path, key):
    folder = changed(tiny, tmp_path, config={key: UNREAD[key]})
    with pytest.raises(ModelError, match=f"config.json holds {key} .* LlamaConfig does not read"):
        loaded(folder)
    with pytest.raises(ModelError, match=key):
        load_part("AutoConfig", folder, "x")


@pytest.fixture(params=[logging.NOTSET, logging.CRITICAL])
def disabled(request):
    """Disable logging up to a level, as a caller may."""
    logging.disable(request.param)
    yield request.param
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("nested", [{"yarn_base": 2.0}, {"beta_quick": 32, "finetuned": True}])
@pytest.mark.usefixtures("disabled")
def test_a_key_of_rope_parameters_that_its_kind_does_not_read_is_refused(tiny, tmp_path, nested):
    scaling = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
    folder = changed(tiny, tmp_path, config={"rope_parameters": {**scaling, **nested}})
    key = next(iter(nested))
    with pytest.raises(ModelError, match=rf"rope_parameters\.{key} \({nested[key]}\)"):
        loaded(folder)
    change_json(folder / "config.json", rope_parameters={**scaling, "finetuned": True})
    assert loaded(folder) == []


def test_scaling_beside_a_model_without_rotary_positions_is_refused(tiny, tmp_path):
    folder = changed(
        tiny, tmp_path, architecture="GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=4,
        config={"rope_scaling": {"type": "linear", "factor": 2.0}},
    )  # fmt: skip
    with pytest.raises(ModelError, match=r"rope_scaling .* GPT2Config does not read"):
        loaded(folder)


REAL = {
    "_name_or_path": "org/base", "_attn_implementation_autoset": True, "unsloth_version": "2025.3",
    "unsloth_fixed": True, "pretraining_tp": 1, "torch_dtype": "float32", "use_cache": True,
    "_flash_attn_2_enabled": True, "use_flash_attn": True, "use_mrope": False,
    "rope_scaling": None, "rope_interleaved": False, "is_llama_config": True, "attn_pdrop": 0.1,
    "pooler_num_attention_heads": 12, "attention_softmax_in_fp32": True, "model_max_length": 2048,
    "transformers.js_config": {"dtype": "q4"}, "position_embedding_type": "absolute",
    "task_specific_params": {"x": 1}, "temperature": 0.7, "top_p": 0.9, "max_length": 20,
    "sliding_window": None, "embedding_multiplier": 1.0, "rope_theta": 10000.0,
}  # fmt: skip
"""Keys that configurations of the hub hold and no number depends on."""


def test_bookkeeping_of_real_configurations_is_silent_and_the_rest_is_one_note(tiny, tmp_path):
    folder = changed(tiny, tmp_path, config=REAL)
    assert loaded(folder) == []
    change_json(folder / "config.json", zebra=3, max_window_layers=28)
    notes = ["x: config.json holds max_window_layers, zebra, which LlamaConfig ignores"]
    assert loaded(folder) == notes
    heard = []
    load_part("AutoConfig", folder, "x", heard)
    load_part("AutoConfig", folder, "x", heard)
    assert heard == notes


def test_a_key_that_the_models_code_reads_without_a_field_is_no_stranger(tiny, tmp_path):
    # Qwen2's class has no field head_dim; its attention asks for one.
    folder = changed(tiny, tmp_path, architecture="Qwen2ForCausalLM")
    assert json.loads((folder / "config.json").read_text())["head_dim"] == 8
    assert "head_dim" not in transformers.Qwen2Config.__dataclass_fields__
    assert loaded(folder) == []


@pytest.mark.usefixtures("disabled")
def test_a_warning_of_a_library_is_a_note_each_time_a_model_is_loaded(tiny, tmp_path):
    folder = changed(tiny, tmp_path, config={"eos_token_id": 5000})
    for _ in range(2):  # transformers itself says it once a process
        (note,) = loaded(folder)
        assert note.startswith("x: a library warns: Model config: eos_token_id must be")


def test_tied_matrices_that_differ_in_the_weights_are_said(tiny, tmp_path):
    other = {"lm_head.weight": torch.ones(1024, 32)}
    folder = changed(tiny, tmp_path, tensors=other, tie_word_embeddings=True)
    (note,) = loaded(folder)
    assert "both are present in the checkpoints with different values" in note


def test_what_is_heard_names_the_model_not_its_folder_and_nothing_known_is_harmless(disabled):
    notes: list[str] = []
    before = transformers.utils.logging.get_verbosity()
    logger = transformers.utils.logging.get_logger("transformers.any")
    with listening(notes, "x", Path("/where/it/lies")):
        logger.warning("The tokenizer you are loading from '/where/it/lies' is\n wrong")
        logger.warning("`torch_dtype` is deprecated! Use `dtype` instead!")
        warnings.warn("both say it", stacklevel=1)
        warnings.warn("both say it", stacklevel=1)
        warnings.warn("a name will go", FutureWarning, stacklevel=1)
    assert notes == [
        "x: a library warns: The tokenizer you are loading from 'x' is wrong",
        "x: a library warns: both say it",
    ]
    assert transformers.utils.logging.get_verbosity() == before
    assert logging.root.manager.disable == disabled
    assert all(reason and len(reason) < 90 for reason in HARMLESS.values())


BREAKS = {
    "renamed": ("model.norm.weight", "the weights lack model.norm.weight"),
    "empty": ("model.layers.0.self_attn.q_proj.weight", "q_proj.weight is empty in the weights"),
    "another head's": ("score.bias", "the weights hold score.bias, which LlamaForS"),
    "of torch.compile": ("", "the weights lack model.embed_tokens.weight"),
}


def broken(tiny, tmp_path, kind):
    folder = changed(tiny, tmp_path)
    weights = load_file(folder / "model.safetensors")
    if kind == "renamed":
        weights["module.model.norm.weight"] = weights.pop("model.norm.weight")
    elif kind == "empty":
        weights[BREAKS[kind][0]] = torch.empty(0)
    elif kind == "another head's":
        weights["score.bias"] = torch.ones(1)
    else:
        weights = {f"_orig_mod.{key}": it for key, it in weights.items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.mark.parametrize("kind", BREAKS)
def test_a_new_head_may_lack_and_nothing_else(tiny, tmp_path, kind):
    loaded(Path(tiny.model()), "classifier", num_labels=1, fresh_head=True)
    with pytest.raises(ModelError, match=BREAKS[kind][1]):
        loaded(broken(tiny, tmp_path, kind), "classifier", num_labels=1, fresh_head=True)


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "Electra"])
def test_an_encoder_of_masked_words_takes_a_new_head(tiny, tmp_path, kind):
    folder = Path(shutil.copytree(tiny.encoder(kind), tmp_path / "model"))
    config = transformers.AutoConfig.from_pretrained(folder)
    transformers.AutoModelForMaskedLM.from_config(config).save_pretrained(folder)
    loaded(folder, "classifier", num_labels=1, fresh_head=True)
    with pytest.raises(ModelError, match="no trained classifier"):
        loaded(folder, "classifier", num_labels=1)


def test_a_folder_without_a_vocabulary_names_the_file_that_is_missing(tiny, tmp_path):
    folder = changed(tiny, tmp_path)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"x: cannot be loaded \(no tokenizer\.json in .*model\)"):
        load_part("AutoTokenizer", folder, "x")


def test_a_tokenizer_that_transformers_splits_wrongly_is_said(tiny, tmp_path):
    folder = changed(
        tiny, tmp_path, architecture="MistralForCausalLM",
        config={"transformers_version": "4.50.0"},
    )  # fmt: skip
    written = json.loads((folder / "tokenizer.json").read_text())
    written["model"]["vocab"] |= {f"zz{k}": k for k in range(1024, 100_002)}  # as large as theirs
    (folder / "tokenizer.json").write_text(json.dumps(written))
    for _ in range(2):
        notes: list[str] = []
        load_part("AutoTokenizer", folder, "x", notes)
        (note,) = notes
        assert note.startswith("x: a library warns: The tokenizer you are loading from 'x' with")


@pytest.mark.parametrize("kind", ["LlamaTokenizerFast", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("normalizer", ["Lowercase", "NFD"])
def test_a_class_whose_parts_take_the_place_of_tokenizer_jsons_is_said(tmp_path, kind, normalizer):
    import tokenizers as library

    model = library.models.BPE(unk_token="<unk>", fuse_unk=False)
    made = library.Tokenizer(model)
    made.normalizer = getattr(library.normalizers, normalizer)()
    made.pre_tokenizer = library.pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = library.trainers.BpeTrainer(vocab_size=90, special_tokens=["<unk>", "<s>", "</s>"])
    made.train_from_iterator(["tea and milk, the café's teas"] * 9, trainer)
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    notes: list[str] = []
    load_part("AutoTokenizer", tmp_path, "x", notes)
    assert len(notes) == (kind == "LlamaTokenizerFast"), notes
    assert all("normalizer" in note and "tokenizer.json" in note for note in notes)


@pytest.mark.parametrize("embedder", [False, True], ids=["classifier", "embedder"])
def test_a_tensor_in_two_shards_is_named(tiny, tmp_path, embedder):
    folder = tmp_path / "x"
    shutil.copytree(tiny.encoder() if embedder else tiny.classifier(), folder)
    if embedder:  # its head is left unread
        change_json(folder / "config.json", architectures=["BertModel"])
    load = load_embedder if embedder else partial(load_weights, head="classifier")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {
        "model-00001-of-00002.safetensors": names[:5],
        "model-00002-of-00002.safetensors": names[5:],
    }
    index = {
        "metadata": {},
        "weight_map": {name: file for file, part in shards.items() for name in part},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for stale in ([], names[:1]):
        for file, part in shards.items():
            save_file(
                {name: tensors[name] for name in {*part, *stale}}, folder / file, {"format": "pt"}
            )
        if stale:
            with pytest.raises(
                ModelError, match=f"{names[0]} stands in model-00001-.* and in model-00002"
            ):
                load("x", folder=folder, notes=[])
        else:
            load("x", folder=folder, notes=[])


def test_a_logger_that_somebody_switched_off_is_heard_and_stays_off(tmp_path):
    logger = logging.getLogger("transformers.some_module")
    logger.disabled, notes = True, list[str]()
    try:
        with listening(notes, "x", tmp_path):
            logger.warning("the weights are odd")
        assert logger.disabled and notes == ["x: a library warns: the weights are odd"]
    finally:
        logger.disabled = False


def test_a_dropout_of_merges_is_of_training_and_is_switched_off(tiny, tmp_path):
    folder = tmp_path / "m"
    shutil.copytree(tiny.model(), folder)
    right = load_part("AutoTokenizer", folder, "m")("Green tea, mild and sweet.")["input_ids"]
    written = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    written["model"]["dropout"] = 0.7
    (folder / "tokenizer.json").write_text(json.dumps(written), encoding="utf-8")
    notes: list[str] = []
    tokenizer = load_part("AutoTokenizer", folder, "m", notes)
    drawn = [tokenizer("Green tea, mild and sweet.")["input_ids"] for _ in range(5)]
    assert drawn == [right] * 5
    assert notes == ["m: tokenizer.json has a dropout of merges, which is not applied"]
