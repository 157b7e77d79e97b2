"""Weights that are not those of the model that would come out of them, each refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from plain_forward import load
from safetensors.torch import load_file

from gguf_files import write_gguf
from palate.errors import ModelError, PalateError, ResourceError
from palate.models import resolve
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import Session
from palate.specs import Reference
from tiny import change_json, make_slate
from tiny import changed_model as changed

CLASSIFIER, CAUSAL = "LlamaForSequenceClassification", "LlamaForCausalLM"


def refusal(folder, head):
    with pytest.raises(ModelError) as caught:
        load(str(folder), head)
    line = str(caught.value)
    assert "\n" not in line
    assert str(folder) in line
    return line


HEADS = {
    "score.bias": torch.ones(1),
    "v_head.summary.weight": torch.ones(1, 32),
    "value_head.weight": torch.ones(1, 32),
    "reward_head.weight": torch.ones(1, 32),
    "model.layers.0.self_attn.q_proj.weight_scale": torch.ones(1),
}


@pytest.mark.parametrize("key", HEADS)
def test_weights_of_another_head_are_refused_by_the_name_of_what_is_not_read(tiny, tmp_path, key):
    folder = changed(tiny, tmp_path, CLASSIFIER, {key: HEADS[key]}, num_labels=1)
    assert f"the weights hold {key}, which {CLASSIFIER} does not read" in refusal(
        folder, "classifier"
    )
    folder = changed(tiny, tmp_path / "causal", CAUSAL, {key: HEADS[key]})
    assert f"the weights hold {key}, which {CAUSAL} does not read" in refusal(folder, "causal")


HARMLESS = {
    "causal": ("model.layers.0.self_attn.rotary_emb.inv_freq", "mtp.head.weight"),
    "classifier": ("lm_head.weight", "model.rotary_emb.inv_freq", "cls.predictions.bias"),
    "encoder": ("lm_head.weight", "score.weight", "v_head.summary.weight", "pooler.dense.bias"),
}


@pytest.mark.parametrize("head", HARMLESS)
def test_buffers_and_heads_that_nobody_asks_for_do_no_harm(tiny, tmp_path, head):
    architecture = CLASSIFIER if head == "classifier" else CAUSAL
    options = {"num_labels": 1} if head == "classifier" else {}
    more = {key: torch.ones(4) for key in HARMLESS[head]}
    local = load(str(changed(tiny, tmp_path, architecture, more, **options)), head)
    plain = load(tiny.model(architecture, **options), head)
    for name, tensor in plain.model.state_dict().items():
        assert torch.equal(tensor, local.model.state_dict()[name])


def test_layers_beyond_those_of_the_configuration_are_refused(tiny, tmp_path):
    folder = changed(tiny, tmp_path, CAUSAL, config={"num_hidden_layers": 1})
    for head in ("causal", "encoder"):
        assert "layers.1." in refusal(folder, head)


FOREIGN = {
    "a process reward model": ("LlamaForTokenClassification", "classifier", {"num_labels": 2}),
    "tied embeddings": (CLASSIFIER, "causal", {"num_labels": 1, "tie_word_embeddings": True}),
    "a body alone": ("LlamaModel", "causal", {"tie_word_embeddings": True}),
    "an encoder": ("BertForMaskedLM", "causal", {}),
    "a decoder of two": ("BartForConditionalGeneration", "causal", {"d_model": 32}),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_model_of_another_architecture_is_refused(tiny, name):
    architecture, head, config = FOREIGN[name]
    line = refusal(tiny.model(architecture, **config), head)
    assert f"config.json says {architecture}" in line or "the weights lack lm_head.weight" in line


@pytest.mark.parametrize(("head", "architecture"), [("classifier", CLASSIFIER), ("causal", CAUSAL)])
def test_a_class_of_ones_own_is_refused_and_its_code_named_where_there_is_some(
    tiny, tmp_path, head, architecture
):
    config = {"architectures": ["MyRewardModel"]}
    options = {"num_labels": 1} if head == "classifier" else {}
    folder = changed(tiny, tmp_path, architecture, config=config, **options)
    line = refusal(folder, head)
    assert "config.json says MyRewardModel" in line
    assert f"correct `architectures` there if it is a {architecture}" in line
    change_json(folder / "config.json", auto_map={"AutoModel": "mine.MyRewardModel"})
    assert "run its own code with --trust-remote-code" in refusal(folder, head)


@pytest.mark.parametrize("named", [None, ["LLaMAForSequenceClassification"], [CAUSAL]])
def test_a_classifier_whose_head_is_there_may_keep_the_name_of_its_base(tiny, tmp_path, named):
    folder = changed(tiny, tmp_path, CLASSIFIER, config={"architectures": named}, num_labels=1)
    load(str(folder), "classifier")


def test_tensors_that_zero_left_empty_are_said_so(tiny, tmp_path):
    key = "model.layers.0.self_attn.q_proj.weight"
    folder = changed(tiny, tmp_path, CLASSIFIER, {key: torch.empty(0)}, num_labels=1)
    assert f"{key} is empty in the weights, as DeepSpeed ZeRO-3" in refusal(folder, "classifier")


def test_a_wrong_number_of_outputs_is_said_with_both_shapes(tiny, tmp_path):
    folder = changed(tiny, tmp_path, CLASSIFIER, {"score.weight": torch.ones(1, 32)}, num_labels=2)
    assert "score.weight is 1 × 32 in the weights and 2 × 32 in config.json by its num_labels" in (
        refusal(folder, "classifier")
    )
    folder = changed(tiny, tmp_path / "more", CAUSAL, config={"hidden_size": 64})
    assert "in config.json; correct it there" in refusal(folder, "causal")


def test_a_file_that_is_cut_short_is_named(tiny, tmp_path):
    folder = changed(tiny, tmp_path, CAUSAL)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    assert "model.safetensors is cut short or damaged" in refusal(folder, "causal")


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_numbers_of_eight_bits_whose_scale_is_not_told_are_refused(tiny, tmp_path, dtype):
    key = "model.layers.0.self_attn.q_proj.weight"
    folder = changed(tiny, tmp_path, CAUSAL, {key: torch.ones(32, 32).to(dtype)})
    line = refusal(folder, "causal")
    assert f"{key} is F8_E" in line
    assert "config.json has no quantization_config that says how it is scaled" in line


BLOCK = 16


def quantised(tiny, tmp_path, method, tensors=None, **how):
    config = {"dtype": "bfloat16", "quantization_config": {"quant_method": method, **how}}
    return changed(tiny, tmp_path, CAUSAL, tensors, config=config)


def in_blocks(weights):
    """Return the layers' matrices as FP8 with a scale for each block, and what they then are."""
    stored, meant = {}, {}
    for key, weight in weights.items():
        if not key.endswith("proj.weight"):
            continue
        blocks = weight.unflatten(0, (-1, BLOCK)).unflatten(2, (-1, BLOCK))
        scale = blocks.abs().amax((1, 3), keepdim=True) / 448
        small = (blocks / scale).to(torch.float8_e4m3fn)
        stored[key] = small.flatten(2, 3).flatten(0, 1)
        stored[f"{key}_scale_inv"] = scale[:, 0, :, 0].contiguous()
        meant[key] = (small.float() * scale).flatten(2, 3).flatten(0, 1)
    return stored, meant


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numbers_of_eight_bits_are_read_by_their_scales_and_named(tiny, tmp_path, dtype):
    stored, meant = in_blocks(load_file(Path(tiny.model(), "model.safetensors")))
    how = {"weight_block_size": [BLOCK, BLOCK], "activation_scheme": "dynamic"}
    folder = quantised(tiny, tmp_path, "fp8", stored, **how)
    local = load(str(folder), dtype=dtype)
    assert {it.dtype for it in local.model.parameters()} == {getattr(torch, dtype)}
    for key, weight in meant.items():
        ours = local.model.get_parameter(key).detach().float()
        assert torch.allclose(ours, weight, rtol=2**-7), key
    reader = Session().reader(Reference.parse(str(folder)), Settings())
    assert reader.details["quantization"] == "fp8"
    assert "quantization" not in Session().reader(Reference.parse(tiny.model()), Settings()).details


REFUSED = {
    "modelopt": ({}, "transformers reads no weights of modelopt"),
    "bitsandbytes": ({"load_in_8bit": True}, "depends on the tokens read beside it"),
    "bitsandbytes_8bit": ({}, "in bitsandbytes 8-bit what a token gets"),
    "hqq": ({}, "its weights are hqq, or else"),
    "awq": ({"bits": 4}, "its weights are awq 4-bit, or else"),
    None: ({"load_in_8bit": True}, "in bitsandbytes 8-bit what a token gets"),
}


@pytest.mark.parametrize("method", REFUSED)
def test_quantised_weights_that_are_not_read_are_refused_with_the_way_out(tiny, tmp_path, method):
    how, why = REFUSED[method]
    line = refusal(quantised(tiny, tmp_path, method, **how), "causal")
    assert why in line
    assert "serve the model with vLLM" in line


@pytest.mark.parametrize("how", [{}, {"quant_method": "bitsandbytes"}])
def test_a_quantisation_that_names_no_way_is_refused(tiny, tmp_path, how):
    line = refusal(changed(tiny, tmp_path, CAUSAL, config={"quantization_config": how}), "causal")
    assert "transformers reads no weights of" in line and "serve the model with vLLM" in line


def test_what_a_configuration_says_of_its_text_model_is_read(tiny, tmp_path):
    how = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    nested = {"text_config": {"quantization_config": how}}
    folder = changed(tiny, tmp_path, CAUSAL, config=nested)
    assert "depends on the tokens read beside it" in refusal(folder, "causal")


@pytest.mark.parametrize("device", ["auto", "cuda:0,cuda:1"])
def test_one_model_on_several_devices_is_refused_with_the_way_out(tiny, device):
    with pytest.raises(ModelError, match=r"a model is read on one device.*vLLM"):
        load(tiny.model(), device=device)


@pytest.mark.parametrize("device", ["meta", "privateuseone", "xla", "balanced"])
def test_a_device_that_is_not_here_is_one_short_line(tiny, device, recwarn):
    with pytest.raises(ModelError, match=f"^--device {device}: not available here ") as raised:
        load(tiny.model(), device=device)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 150
    assert not recwarn.list


def test_a_processor_by_its_number_is_the_processor(tiny):
    local = load(tiny.model(), device="cpu:0")
    assert local.device == "cpu" and local.model.dtype == torch.float32


def test_a_model_for_which_there_is_no_room_is_one_line(tiny, monkeypatch):
    def full(self, device):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(torch.nn.Module, "to", full)
    monkeypatch.setattr(transformers.PreTrainedModel, "to", full)
    with pytest.raises(ResourceError, match="no room for it on cpu; serve the model with vLLM"):
        Session().model(Reference.parse(tiny.model()), "causal", Settings())


CODE = """
import torch
from transformers import LlamaForSequenceClassification

class Mine(LlamaForSequenceClassification):
    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.logits = output.logits * 0 + VALUE
        return output
"""


def with_code(tiny, tmp_path, value):
    folder = tmp_path / "model"
    if not folder.is_dir():
        entry = {"AutoModelForSequenceClassification": "mine.Mine"}
        config = {"auto_map": entry, "architectures": ["Mine"]}
        changed(tiny, tmp_path, CLASSIFIER, config=config, num_labels=1)
    (folder / "mine.py").write_text(CODE.replace("VALUE", str(value)))
    return folder


def test_another_line_of_a_models_own_code_is_another_model(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    values, prints = [], []
    for value in (0.75, 0.25):
        folder = with_code(tiny, tmp_path, value)
        settings = Settings(trust_remote_code=True)
        scorer = build_scorer(f"classifier:{folder}", Session(), settings)
        ((_, scores),) = scorer.score([make_slate("Tea.")])
        values += scores.values
        prints.append(scorer.info.fingerprint)
    assert values == [0.75, 0.25]
    assert len(set(prints)) == 2


def test_code_is_no_part_of_a_model_where_it_does_not_run(tiny, tmp_path):
    folder = with_code(tiny, tmp_path, 0.75)
    before, trusted = (resolve(Reference.parse(str(folder)), code=c) for c in (False, True))
    with_code(tiny, tmp_path, 0.25)
    after, other = (resolve(Reference.parse(str(folder)), code=c) for c in (False, True))
    assert before == after
    assert trusted.content != other.content


def test_code_of_another_repository_is_refused(tiny, tmp_path):
    folder = with_code(tiny, tmp_path, 0.75)
    entry = {"AutoModelForSequenceClassification": "else/where--mine.Mine"}
    change_json(folder / "config.json", auto_map=entry)
    resolve(Reference.parse(str(folder)))
    with pytest.raises(ModelError, match=r"takes code from else/where, .* write mine\.Mine$"):
        resolve(Reference.parse(str(folder)), code=True)


def test_a_gguf_file_is_read_where_it_lies_without_rounding(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("models").mkdir()
    write_gguf(Path(tiny.model()), tmp_path / "models" / "x.gguf", "llama")
    reference = Reference.parse("models/x.gguf")
    assert (reference.place, str(reference)) == ("folder", "models/x.gguf")
    local = load("./models/x.gguf")
    plain = transformers.AutoModelForCausalLM.from_pretrained(
        "models", gguf_file="x.gguf", dtype=torch.float32
    )
    ids = torch.arange(3, 40)[None]
    with torch.inference_mode():
        assert torch.equal(local.model(ids).logits, plain(ids).logits)
    with pytest.raises(ModelError, match=r"the weights lack score\.weight; this is no trained"):
        load("./models/x.gguf", "classifier")


def test_a_folder_of_a_gguf_file_names_the_file(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"a GGUF file is named itself: .*x\.gguf$"):
        resolve(Reference.parse(str(tmp_path)))
    (tmp_path / "x.bin").write_bytes(b"")
    with pytest.raises(PalateError, match=r"expected a folder of safetensors, or a \.gguf file"):
        resolve(Reference.parse(str(tmp_path / "x.bin")))
