"""Adapters of PEFT, read on their base, against peft's own forward pass without any of palate."""

from __future__ import annotations

import builtins
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from plain_forward import RESPONSES, TOLERANCE, assert_close, conversation, encode, load
from plain_forward import log_probabilities as of_palate
from safetensors.torch import load_file, save_file

from palate.errors import HubError, ModelError, UsageError
from palate.learning import load_base
from palate.models import content_hash, merge, resolve
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import Session
from palate.specs import Reference
from tiny import change_json, make_slate

peft = pytest.importorskip("peft")
AUTO = {
    "CAUSAL_LM": transformers.AutoModelForCausalLM,
    "SEQ_CLS": transformers.AutoModelForSequenceClassification,
}
LORA = {"target_modules": ["q_proj", "v_proj", "down_proj"], "init_lora_weights": False}
CONFIGS = {
    "lora": lambda task: peft.LoraConfig(task_type=task, **LORA),
    "dora": lambda task: peft.LoraConfig(task_type=task, use_dora=True, **LORA),
    "rank-stabilised": lambda task: peft.LoraConfig(task_type=task, use_rslora=True, **LORA),
    "ia3": lambda task: peft.IA3Config(
        task_type=task, target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"],
        init_ia3_weights=False,
    ),
}  # fmt: skip


def trained(folder, base, config, rows=None, **options):
    """Save a random adapter; return peft's own model in evaluation."""
    torch.manual_seed(3)
    options = {"dtype": torch.float32, **options}
    model = AUTO[config.task_type].from_pretrained(base, **options)
    if rows is not None:  # as where tokens are added
        model.resize_token_embeddings(rows)
    adapted = peft.get_peft_model(model, config)
    for name, parameter in adapted.named_parameters():
        if "ia3" in name:  # which starts out near 1
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    adapted.save_pretrained(folder)
    return adapted.eval()


@pytest.fixture
def folder(tiny, tmp_path):
    """An adapter of a tiny language model."""
    trained(tmp_path / "adapter", tiny.model(), CONFIGS["lora"]("CAUSAL_LM"))
    return tmp_path / "adapter"


def log_probabilities(model, encoded):
    with torch.inference_mode():
        for ids, start in encoded:
            logp = torch.log_softmax(model(torch.tensor([list(ids)])).logits[0, :-1].double(), -1)
            yield logp[range(start - 1, len(ids) - 1), list(ids[start:])].float()


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_language_models_adapter_gives_what_peft_gives(tiny, tmp_path, kind):
    plain = trained(tmp_path / "adapter", tiny.model(), CONFIGS[kind]("CAUSAL_LM"))
    local = load(str(tmp_path / "adapter"))
    assert local.read_mode.tree, "an adapter is merged: nothing of the reading changes"
    encoded = encode(local)
    expected = list(log_probabilities(plain, encoded))
    assert_close(of_palate(local, encoded), expected)
    with plain.disable_adapter():
        base = next(log_probabilities(plain, encoded))
    assert float((base - expected[0]).abs().max()) > 100 * TOLERANCE


def test_tokens_that_training_added_keep_their_embeddings(tiny, tmp_path):
    plain = trained(tmp_path / "adapter", tiny.model(), CONFIGS["lora"]("CAUSAL_LM"), rows=1030)
    local = load(str(tmp_path / "adapter"))
    encoded = [([*range(3, 60), 1029, 1024, 5], 40)]
    assert_close(of_palate(local, encoded), list(log_probabilities(plain, encoded)))


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_classifiers_adapter_brings_its_own_head(tiny, tmp_path, outputs):
    folder = tmp_path / "adapter"
    plain = trained(folder, tiny.model(), CONFIGS["lora"]("SEQ_CLS"), num_labels=outputs)
    scorer = build_scorer(f"classifier:{folder}?head={outputs - 1}", Session(), Settings())
    slate = make_slate(*RESPONSES)
    ((_, scores),) = scorer.score([slate])
    with torch.inference_mode():
        for value, ids in zip(scores.values, scorer._encoded(slate), strict=True):
            own = plain.base_model.model.model(torch.tensor([list(ids)]))
            head = plain.base_model.model.score
            assert value == pytest.approx(
                float(head(own.last_hidden_state[0, -1])[outputs - 1]), abs=TOLERANCE
            )
    assert len(set(scores.values)) == len(RESPONSES)


def test_the_run_names_the_base_and_its_content_counts(tiny, tmp_path):
    base = Path(shutil.copytree(tiny.model(), tmp_path / "base"))
    trained(tmp_path / "adapter", base, CONFIGS["lora"]("CAUSAL_LM"))
    prints = []
    for scale in (0.1, 0.2):
        change_json(base / "config.json", initializer_range=scale)
        info = build_scorer(f"likelihood:{tmp_path / 'adapter'}", Session(), Settings()).info
        assert info.details["reference"] == f"{tmp_path / 'adapter'} on {base}"
        prints.append(info.fingerprint)
    assert len(set(prints)) == 2
    moved = Path(shutil.copytree(base, tmp_path / "elsewhere"))
    change_json(tmp_path / "adapter" / "adapter_config.json", base_model_name_or_path=str(moved))
    again = resolve(Reference.parse(str(tmp_path / "adapter")), adapters=True)
    assert again.path == moved
    assert again.content != content_hash(moved)


def test_a_tokenizer_beside_the_adapter_wins_and_its_pad_token_is_read(tiny, tmp_path):
    folder = tmp_path / "adapter"
    trained(folder, tiny.model(), CONFIGS["lora"]("SEQ_CLS"), num_labels=1)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(tiny.model()) / name, folder)
    template = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
    (folder / "chat_template.jinja").write_text(template)
    scorer = build_scorer(f"classifier:{folder}", Session(), Settings())
    (prompt,) = scorer.prompts(make_slate("Tea.", question="Coffee?"))
    assert prompt.endswith("Tea.<|im_end|>")
    assert "user" not in prompt
    assert scorer.local.reader.config.pad_token_id == scorer.local.reader.tokenizer.pad_token_id
    assert scorer.local.model.model.config.pad_token_id is not None


def refusal(reference, head="causal", error=ModelError):
    with pytest.raises(error) as caught:
        load(str(reference), head)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_adapter_without_its_base_is_one_line_that_says_where_to_write_it(folder, tmp_path):
    config = folder / "adapter_config.json"
    for base in ("/nowhere/base", "./base", ""):
        change_json(config, base_model_name_or_path=base)
        line = refusal(folder)
        assert f"`base_model_name_or_path` of {config}" in line
        assert ("it names no base" if not base else f"its base {base} is not there") in line
    change_json(config, base_model_name_or_path=str(tmp_path))
    assert "its base cannot be had" in refusal(folder)


def test_a_base_on_a_hub_out_of_reach_is_the_outside_world(folder, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    change_json(folder / "adapter_config.json", base_model_name_or_path="some-org/some-base")
    line = refusal(folder, error=HubError)
    assert "its base cannot be had" in line
    assert "some-org/some-base" in line


def test_an_adapter_beside_weights_that_may_hold_it_is_refused(tiny, tmp_path):
    folder = tmp_path / "merged"
    merged = trained(tmp_path / "adapter", tiny.model(), CONFIGS["lora"]("CAUSAL_LM"))
    shutil.copytree(tiny.model(), folder)
    merged.merge_and_unload().save_pretrained(folder)
    assert load(str(folder)).read_mode.tree
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(tmp_path / "adapter" / name, folder)
        line = refusal(folder)
        assert "model.safetensors and adapter_config.json lie side by side" in line


def test_an_adapter_of_another_task_base_or_kind_is_refused(tiny, tmp_path):
    trained(tmp_path / "judge", tiny.model(), CONFIGS["lora"]("CAUSAL_LM"))
    trained(tmp_path / "rm", tiny.model(), CONFIGS["lora"]("SEQ_CLS"), num_labels=1)
    assert "an adapter for SEQ_CLS; this needs CAUSAL_LM" in refusal(tmp_path / "rm")
    assert "the weights lack score.weight" in refusal(tmp_path / "judge", "classifier")
    other = tiny.model(num_hidden_layers=1)
    config = tmp_path / "judge" / "adapter_config.json"
    change_json(config, base_model_name_or_path=other)
    assert f"does not fit its base {other}" in refusal(tmp_path / "judge")
    prompt = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    trained(tmp_path / "prompt", tiny.model(), prompt)
    assert "PROMPT_TUNING changes no weights" in refusal(tmp_path / "prompt")


def test_weights_that_are_a_pickle_are_not_read(folder):
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    assert "adapter_model.bin is a pickle" in refusal(folder)


def test_what_trains_or_exports_a_model_refuses_an_adapter(folder):
    with pytest.raises(ModelError, match="merge the two"):
        load_base(resolve(Reference.parse(str(folder))), "adapter", 0, "causal")
    with pytest.raises(ModelError, match="merge the two"):
        Session().folder(Reference.parse(str(folder)))


@pytest.mark.parametrize("kind", ["lora", "dora", "ia3"])
@pytest.mark.parametrize("task", AUTO)
def test_an_adapter_that_changes_nothing_is_refused(tiny, tmp_path, kind, task):
    config = CONFIGS[kind](task)
    for name in ("init_lora_weights", "init_ia3_weights"):
        if hasattr(config, name):
            setattr(config, name, True)  # as where training is lost when it is saved
    torch.manual_seed(3)
    options = {"num_labels": 1} if task == "SEQ_CLS" else {}
    plain = AUTO[task].from_pretrained(tiny.model(), dtype=torch.float32, **options)
    peft.get_peft_model(plain, config).save_pretrained(tmp_path / "adapter")
    head = "classifier" if task == "SEQ_CLS" else "likelihood"
    scorer = build_scorer(f"{head}:{tmp_path / 'adapter'}", Session(), Settings())
    with pytest.raises(ModelError, match=r"the adapter changes nothing of .* it is untrained, or"):
        dict(scorer.score([make_slate("Tea.", "Milk.")]))


def test_without_peft_it_says_what_to_install(folder, monkeypatch):
    plain = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "peft":
            raise ImportError(name)
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    line = refusal(folder, error=UsageError)
    assert "an adapter needs pip install 'palate[train]'" in line


def test_a_prompt_is_that_of_the_base(folder, tiny):
    ours, base = (
        build_scorer(f"likelihood:{it}", Session(), Settings()) for it in (folder, tiny.model())
    )
    slate = make_slate("Tea.", question=conversation()[0].content)
    assert ours.prompts(slate) == base.prompts(slate)


TIED = {
    "the head": {"target_modules": ["lm_head"]},
    "the words": {"target_modules": ["embed_tokens"]},
    "both": {"target_modules": ["lm_head", "embed_tokens", "q_proj"]},
    "the head, dora": {"target_modules": ["lm_head"], "use_dora": True},
    "words that are saved": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]},
    "trained tokens": {"target_modules": ["q_proj"], "trainable_token_indices": [5, 7]},
    "neither": {"target_modules": ["q_proj"]},
}


@pytest.mark.parametrize("architecture", ["Gemma2ForCausalLM", "LlamaForCausalLM"])
@pytest.mark.parametrize("kind", TIED)
def test_an_adapter_of_one_of_two_tied_matrices_leaves_the_other(
    tiny, tmp_path, kind, architecture
):
    more = {"query_pre_attn_scalar": 8} if architecture.startswith("Gemma") else {}
    base = tiny.model(architecture, tie_word_embeddings=True, **more)
    config = peft.LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **TIED[kind])
    plain = trained(tmp_path / "adapter", base, config)
    for name, parameter in plain.named_parameters():
        if "trainable_tokens" in name or "modules_to_save" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    plain.save_pretrained(tmp_path / "adapter")
    local = load(str(tmp_path / "adapter"))
    ids = torch.tensor([[*range(3, 40)]])
    with torch.inference_mode():
        of_peft, of_base = plain(ids).logits, transformers.AutoModelForCausalLM.from_pretrained(
            base, dtype=torch.float32
        )(ids).logits  # fmt: skip
        merged = local.model(ids).logits
    assert float((merged - of_peft).abs().max()) < 1e-5 * float(of_peft.abs().max())
    assert float((of_base - of_peft).abs().max()) > 0.01
    assert local.notes == []


def test_a_merged_model_is_saved_untied_and_read_as_it_was(tiny, tmp_path):
    base = tiny.model("LlamaForCausalLM", tie_word_embeddings=True)
    config = peft.LoraConfig(
        task_type="CAUSAL_LM", init_lora_weights=False, target_modules=["lm_head"]
    )
    plain = trained(tmp_path / "adapter", base, config)
    ids = torch.tensor([[*range(3, 40)]])
    with torch.inference_mode():
        expected = plain(ids).logits
        made = merge(plain)
        assert torch.allclose(made(ids).logits, expected, atol=1e-5)
        made.save_pretrained(tmp_path / "merged")
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(Path(base) / name, tmp_path / "merged")
        again = load(str(tmp_path / "merged"))
        assert torch.allclose(again.model(ids).logits, expected, atol=1e-5)


def test_a_field_of_an_adapter_that_peft_does_not_know_is_refused(folder):
    change_json(folder / "adapter_config.json", use_newer_math=False)
    load(str(folder))
    change_json(folder / "adapter_config.json", use_newer_math=True)
    assert "adapter_config.json holds use_newer_math, which this version of peft" in refusal(folder)


def test_an_adapter_that_cannot_be_merged_is_refused_by_what_it_gives(tiny, tmp_path):
    # Copies of a layer share its weights, so what is merged into one is merged into all.
    stacked = peft.LoraConfig(task_type="CAUSAL_LM", layer_replication=[[0, 2], [0, 2]], **LORA)
    trained(tmp_path / "adapter", tiny.model(num_hidden_layers=2), stacked)
    assert "merged into its base, the adapter gives other numbers" in refusal(tmp_path / "adapter")


@pytest.mark.parametrize("bias", ["lora_only", "all"])
def test_biases_that_were_trained_are_in_the_file(tiny, tmp_path, bias):
    folder, base = tmp_path / "adapter", tiny.model("Qwen2ForCausalLM")
    plain = trained(folder, base, peft.LoraConfig(task_type="CAUSAL_LM", bias=bias, **LORA))
    local = load(str(folder))
    encoded = encode(local)
    assert_close(of_palate(local, encoded), list(log_probabilities(plain, encoded)))
    file = folder / "adapter_model.safetensors"
    tensors = {k: v for k, v in load_file(file).items() if not k.endswith("bias")}
    save_file(tensors, file, {"format": "pt"})
    assert "_proj.bias was trained, and adapter_model.safetensors lacks it" in refusal(folder)
