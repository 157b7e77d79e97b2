"""The base of a training is checked as what is scored: no weight is drawn that should be there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from command_line import palate
from palate.errors import ModelError
from palate.learning.fitting import load_policy
from palate.models import resolve
from palate.specs import Reference
from tiny import change_json

METHODS = ("classifier", "autoregressive", "planner", "p-dpo")
FAULTS = {
    "renamed": "the weights lack model.norm.weight",
    "a head's bias": "the weights hold score.bias",
    "empty": "model.layers.1.mlp.up_proj.weight is empty in the weights",
    "compiled": "the weights lack ",
    "a layer more": "the weights hold model.layers.2.",
}


def broken(tiny, tmp_path, fault):
    folder = Path(shutil.copytree(tiny.model(), tmp_path / "x"))
    weights = load_file(folder / "model.safetensors")
    if fault == "renamed":
        weights["module.model.norm.weight"] = weights.pop("model.norm.weight")
    elif fault == "a head's bias":
        weights["score.bias"] = torch.ones(1)
    elif fault == "empty":
        weights["model.layers.1.mlp.up_proj.weight"] = torch.empty(0)
    elif fault == "a layer more":
        weights["model.layers.2.mlp.up_proj.weight"] = torch.ones(64, 32)
    else:
        weights = {f"_orig_mod.{key}": it for key, it in weights.items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def data(tmp_path):
    rows = [
        {"id": k, "user_id": f"u{k % 3}", "question": f"Which, {k}?", "chosen": "a",
         "rejected": "bb", "profile": [{"id": "p", "text": "I wrote this."}],
         "rubric_aspects": [{"aspect": "Short."}]}
        for k in range(6)
    ]  # fmt: skip
    (tmp_path / "votes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fault", FAULTS)
def test_training_ends_with_the_tensors_name(tiny, tmp_path, method, fault):
    broken(tiny, tmp_path, fault)
    data(tmp_path)
    words = ["train", method, "--base", "./x", "--data", "votes.jsonl", "-o", "out"]
    done = palate(*words, "--steps", "1", "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 2
    assert FAULTS[fault] in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("fault", FAULTS)
def test_the_policy_of_ppo_is_checked_too(tiny, tmp_path, fault):
    folder = resolve(Reference.parse(str(broken(tiny, tmp_path, fault))))
    with pytest.raises(ModelError, match="cannot be trained as a language model") as caught:
        load_policy(folder, "./x", 0)
    assert FAULTS[fault] in str(caught.value)


def test_what_is_said_of_a_base_reaches_the_screen_once(tiny, tmp_path):
    folder = Path(shutil.copytree(tiny.model(), tmp_path / "x"))
    change_json(folder / "config.json", zebra=3)
    data(tmp_path)
    words = ["train", "classifier", "--base", "./x", "--data", "votes.jsonl", "-o", "out"]
    done = palate(*words, "--steps", "0", "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("./x: config.json holds zebra, which LlamaConfig ignores") == 1
