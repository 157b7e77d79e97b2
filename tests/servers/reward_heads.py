"""A reward model that vLLM serves: SmolLM2 with a head of random weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
import transformers


def save_with_head(language_model: Path, folder: Path, outputs: int) -> str:
    """Save the model with a head whose outputs are far enough from 0 and from each other."""
    torch.manual_seed(3)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        language_model, num_labels=outputs, dtype=torch.float32
    )
    torch.nn.init.normal_(model.score.weight, std=0.1)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(language_model / name, folder)
    return str(folder)
