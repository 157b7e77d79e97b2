"""Folders with a random model of a family, one of its heads, and a tokenizer of some kind."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from families import FAMILIES, SIZES
from vocabularies import write_tokenizer

SPREAD = 0.3
"""Standard deviation of the weights: ten times the usual, so that what is misread shows."""
HEADS = {
    "decoder": transformers.AutoModelForCausalLM,
    "encoder": transformers.AutoModelForMaskedLM,
    "encoder-decoder": transformers.AutoModelForSeq2SeqLM,
    "labels": transformers.AutoModelForSequenceClassification,
    "steps": transformers.AutoModelForTokenClassification,
}

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


class Shelf:
    """Makes each folder once; the weights do not depend on the tokenizer."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def language_model(self, name: str, tokenizer: str | None = None, seed: int = 7) -> str:
        """Return a folder of the family's language model, of whatever kind it is."""
        return self._dressed(name, FAMILIES[name].kind, tokenizer, 2, seed)

    def classifier(self, name: str, outputs: int, tokenizer: str | None = None) -> str:
        """Return a folder of a reward model, or of the language model where there is none."""
        head = "labels" if has_head(name, "labels") else FAMILIES[name].kind
        return self._dressed(name, head, tokenizer, outputs, 7)

    def step_classifier(self, name: str, tokenizer: str | None = None) -> str:
        """Return a folder of a process reward model, or of the language model."""
        head = "steps" if has_head(name, "steps") else FAMILIES[name].kind
        return self._dressed(name, head, tokenizer, 2, 7)

    def embedder(self, name: str, tokenizer: str | None = None) -> str:
        """Return a folder that sentence-transformers reads: the mean state, or a decoder's last."""
        folder = Path(f"{self.language_model(name, tokenizer)}-embedder")
        if not folder.exists():
            shutil.copytree(self.language_model(name, tokenizer), folder)
            (folder / "chat_template.jinja").unlink()
            mode = "lasttoken" if FAMILIES[name].kind == "decoder" else "mean"
            (folder / "1_Pooling").mkdir()
            pooling = {"embedding_dimension": 32, "pooling_mode": mode}
            (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
            (folder / "modules.json").write_text(json.dumps(MODULES))
        return str(folder)

    def _dressed(self, name: str, head: str, tokenizer: str | None, outputs: int, seed: int) -> str:
        kind = tokenizer or FAMILIES[name].tokenizer
        folder = self.root / _slug(f"{name} {head} {kind} {outputs} {seed}")
        if not folder.exists():
            shutil.copytree(self._weights(name, head, outputs, seed), folder)
            written = json.loads((folder / "config.json").read_text())
            written["pad_token_id"] = write_tokenizer(kind, folder)
            (folder / "config.json").write_text(json.dumps(written))
        return str(folder)

    @cache  # noqa: B019
    def _weights(self, name: str, head: str, outputs: int, seed: int) -> Path:
        folder = self.root / "weights" / _slug(f"{name} {head} {outputs} {seed}")
        torch.manual_seed(seed)
        model = HEADS[head].from_config(
            configuration(name, id2label={k: f"aspect {k}" for k in range(outputs)})
        )
        with torch.no_grad():
            for key, weights in model.named_parameters():
                decays = "A_log" in key or "dt" in key  # or a state would forget at once
                if (weights.ndim > 1 or key.endswith("bias")) and not decays:
                    weights.normal_(std=SPREAD)
        model.save_pretrained(folder)
        return folder


@cache
def has_head(name: str, head: str) -> bool:
    """Tell whether transformers has this head for a family."""
    return type(configuration(name)) in HEADS[head]._model_mapping


def configuration(name: str, **more: Any) -> Any:
    """Return the configuration of a family."""
    family = FAMILIES[name]
    return getattr(transformers, f"{family.config}Config")(**{**SIZES, **family.options, **more})


def _slug(text: str) -> str:
    return re.sub(r"\W+", "-", text)
