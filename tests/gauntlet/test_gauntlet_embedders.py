"""What stands around a text that is embedded leaves the text whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from vocabularies import SEPARATED

from palate.engines import Embedder
from palate.records import Settings
from palate.seeding import digest
from palate.specs import Reference
from tiny import change_json

LIMIT = 32
TEXT = "tea or coffee ? " * 7
"""28 tokens: another and the two special ones still fit the limit, a prompt does not."""


def prompted(folder: Path) -> None:
    """Write a prompt that is put before every text."""
    settings = {"prompts": {"query": "You will see : "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))


def templated(folder: Path) -> None:
    """Make a folder of transformers with a chat template, which is written around every text."""
    (folder / "modules.json").unlink()
    change_json(folder / "tokenizer_config.json", model_max_length=LIMIT)
    (folder / "chat_template.jinja").write_text(SEPARATED)


@pytest.fixture(autouse=True)
def sentence_transformers():
    """Imported before a test whose price is not its import."""
    return pytest.importorskip("sentence_transformers")


@pytest.mark.parametrize("around", [None, prompted, templated])
def test_the_last_word_of_a_text_counts_whatever_stands_around_it(shelf, tmp_path, around):
    folder = tmp_path / "embedder"
    shutil.copytree(shelf.embedder("BERT"), folder)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LIMIT}))
    if around is not None:
        around(folder)
    embedder = Embedder(Reference.parse(str(folder)), Settings(device="cpu"))
    first, second = embedder.embed_all([TEXT + "midnight", TEXT + "fire"])
    made = digest("embedder", embedder.folder.content, "cpu", 3)
    assert (embedder.fingerprint == made) == (around is None), "its long texts are other numbers"
    assert first.tokens == second.tokens == LIMIT - 3
    assert first.windows == (1 if around is None else 2)
    assert np.abs(first.vector - second.vector).max() > 1e-3
