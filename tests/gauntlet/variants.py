"""Folders of a family that differ in one thing: an adapter, a GGUF file, a template, a key.

Each is made from a copy of the family's own folder, with the plain model that it must equal.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gguf
import peft
import torch
import transformers
from families import FAMILIES
from plain import Ids, Plain
from safetensors.torch import load_file, save_file

from gguf_files import write_gguf, write_parts
from palate.prompts import render
from palate.records import Message, Slate
from tiny import change_json

Folder = tuple[str, Plain]
"""What palate reads, and what it must equal."""
LOADERS = {"decoder": "AutoModelForCausalLM", "labels": "AutoModelForSequenceClassification"}
PROJECTIONS = re.compile(
    r"^(q|k|v|query|key|value)(_?proj|_lin)?$"
    r"|^(qkv_proj|query_key_value|c_attn|Wqkv|in_proj|kv_a_proj_with_mqa|(query|value)_proj)$"
)
"""What projects a state into queries, keys and values, or into a state's input."""
OPENS, CLOSES = "<|START_THINKING|>", "<|END_THINKING|>"
EOS = 2
END = "end of a reply"
"""A variant whose replies are compared; of all others the first scorer's numbers are."""
HTML = ("<b>", "</b>", "<br>")
PLAIN_POSITIONS = {"rope_type": "default", "rope_theta": 10000.0}
SCALED = {
    **PLAIN_POSITIONS,
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 256,
}
GGUFS = {"Llama 3": "llama", "Qwen 2": "qwen2"}
"""Families whose files are written here, each as its architecture is called there."""


class Thoughtless(Plain):
    """A model whose prompt opens a thought, which is closed before a response."""

    def prompt_and(self, slate: Slate, response: str, closed: bool = False) -> tuple[Ids, int]:
        """Return the ids of question and response behind a closed thought."""
        prompt = self.text(render(slate.question, slate.shown)) + CLOSES
        return self.split(prompt, prompt + response)


def _plain(folder: str | Path, name: str, kind: type[Plain] = Plain) -> Plain:
    family = FAMILIES[name].kind
    return kind(str(folder), LOADERS["decoder" if family == "decoder" else "labels"], family)


def _adapted(base: Path, name: str, target: str) -> Folder:
    tied = target == "head"
    if tied:
        change_json(base / "config.json", tie_word_embeddings=True)
    plain = _plain(base, name)
    model = plain.model
    head = model.get_output_embeddings()
    embeddings = model.get_input_embeddings()
    if tied and head is not None and head.weight is not embeddings.weight:
        head.weight = embeddings.weight
        model.save_pretrained(base)
    whole = {id(it): key for key, it in model.named_modules()}
    projections = {
        key
        for key, it in model.named_modules()
        if isinstance(it, torch.nn.Linear | transformers.pytorch_utils.Conv1D)
        and PROJECTIONS.search(key.rpartition(".")[2])
    }
    if target == "head":
        layers = {whole[id(it)] for it in (embeddings, head) if it is not None}
    else:
        layers = projections
    told: dict[str, Any] = {}
    if target == "tokens":
        told["trainable_token_indices"] = [4, 5, 6]
    if target == "saved" and head is not None:
        told["modules_to_save"] = [whole[id(head)].rpartition(".")[2]]
    torch.manual_seed(11)
    adapted = peft.get_peft_model(
        model,
        peft.LoraConfig(
            task_type="CAUSAL_LM" if FAMILIES[name].kind == "decoder" else "SEQ_CLS",
            r=2,
            target_modules=sorted(layers),
            **told,
        ),
    )
    with torch.no_grad():
        for weights in adapted.parameters():
            if weights.requires_grad:
                weights.add_(0.1 * torch.randn_like(weights))
    folder = base.with_name(f"{base.name}-adapter")
    adapted.save_pretrained(folder)
    plain.model = adapted.eval()
    return str(folder), plain


def _gguf(base: Path, name: str, positions: dict[str, Any]) -> Folder:
    file = base.with_name(f"{base.name}.gguf")
    architecture = GGUFS.get(name)
    config = json.loads((base / "config.json").read_text())
    if architecture is None:  # a header alone: nothing of it is to be read
        write_parts(gguf.GGUFWriter(str(file), config["model_type"]))
        return str(file), _plain(base, name)
    change_json(base / "config.json", rope_parameters=positions)
    _write(base, {key: it.bfloat16().float() for key, it in _weights(base).items()})
    keys = dict.fromkeys(("attention.key_length", "attention.value_length"), config["head_dim"])
    if "factor" in positions:
        original = positions["original_max_position_embeddings"]
        keys |= {"rope.scaling.type": "yarn", "rope.scaling.factor": positions["factor"]}
        keys["rope.scaling.original_context_length"] = original
    write_gguf(base, file, architecture, keys)
    plain = _plain(base, name)
    # A tokenizer of GGUF lacks how its class splits words until it is saved and read again.
    transformers.AutoTokenizer.from_pretrained(base, gguf_file=str(file)).save_pretrained(base)
    plain.tokenizer.chat_template = (base / "chat_template.jinja").read_text()
    return str(file), plain


def _thought(base: Path, name: str) -> Folder:
    template = base / "chat_template.jinja"
    opening = f"{{% if add_generation_prompt %}}{OPENS}{{% endif %}}"
    template.write_text(template.read_text() + opening)
    return str(base), _plain(base, name, Thoughtless)


def _html(base: Path, name: str) -> Folder:
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens([*HTML])
    tokenizer.save_pretrained(base)
    return str(base), _plain(base, name)


def _wrong_key(base: Path, name: str) -> Folder:
    config = json.loads((base / "config.json").read_text())
    positions = config.get("rope_parameters") or PLAIN_POSITIONS
    nested = {key: it for key, it in positions.items() if isinstance(it, dict)}
    wrong = {**positions, **{key: {**it, "beta_quick": 2.0} for key, it in nested.items()}}
    if not nested:
        wrong["beta_quick"] = 2.0
    change_json(base / "config.json", rope_parameters=wrong)
    return str(base), _plain(base, name)


def renamed(keys: Sequence[str]) -> str:
    """Return the tensor that is renamed: the first matrix of a layer."""
    return next(key for key in sorted(keys) if re.search(r"^(?!.*expert).*\.\d+\..*weight$", key))


def _renamed(base: Path, name: str) -> Folder:
    weights = _weights(base)
    key = renamed([it for it, tensor in weights.items() if tensor.ndim > 1])
    _write(base, {(f"{it}_old" if it == key else it): tensor for it, tensor in weights.items()})
    return str(base), _plain(base, name)


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def _write(folder: Path, weights: dict[str, torch.Tensor]) -> None:
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


VARIANTS: dict[str, Callable[[Path, str], Folder]] = {
    "adapter: attention": lambda base, name: _adapted(base, name, "attention"),
    "adapter: tied head": lambda base, name: _adapted(base, name, "head"),
    "adapter: whole head": lambda base, name: _adapted(base, name, "saved"),
    "adapter: tokens": lambda base, name: _adapted(base, name, "tokens"),
    "GGUF": lambda base, name: _gguf(base, name, PLAIN_POSITIONS),
    "GGUF, scaled": lambda base, name: _gguf(base, name, SCALED),
    "open thought": _thought,
    "HTML tokens": _html,
    "wrong key": _wrong_key,
    "renamed tensor": _renamed,
}


def copied(folder: str, what: str) -> str:
    """Return a copy of a folder, named after what differs in it."""
    copy = f"{folder}-{re.sub(r'[^a-z]+', '-', what.casefold())}"
    shutil.copytree(folder, copy)
    return copy


def new_end(plain: Plain, prompts: Sequence[Sequence[Message]], tokens: int) -> tuple[int, int]:
    """Make a token of a reply the tokenizer's end; return it, and the prompt it was written to."""
    texts = [plain.text(prompt) for prompt in prompts]
    for k, text in enumerate(texts):
        ids = torch.tensor([plain.ids(text)])
        told = {"attention_mask": torch.ones_like(ids), "max_new_tokens": tokens}
        with torch.inference_mode():
            written = plain.model.generate(ids, pad_token_id=0, do_sample=False, **told)
        *written, _ = written[0, ids.shape[1] :].tolist()
        for end, name in zip(written, plain.tokenizer.convert_ids_to_tokens(written), strict=True):
            word = (name or "").strip("Ġ▁")
            if word and end > EOS and not any(word in each for each in texts):
                change_json(Path(plain.folder) / "tokenizer_config.json", eos_token=name)
                return end, k
    raise AssertionError(f"{plain.folder}: every token of its replies stands in the prompts")


def variant(column: str, folder: str, name: str) -> Folder:
    """Return the copy of a family's folder that differs as the column says."""
    return VARIANTS[column](Path(copied(folder, column)), name)
