"""What stands around a text that is embedded leaves the text whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

from vocabularies import SEPARATED

from palate.engines import Embedder
from palate.records import Settings
from palate.specs import Reference

LIMIT = 32
TEXT = "tea or coffee ? " * 7
"""28 tokens: with another and the two special ones they fit the limit, with a prompt they do not."""


def prompted(folder: Path) -> None:
    """Write a prompt that is put before every text."""
    settings = {"prompts": {"query": "You will see : "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))


def templated(folder: Path) -> None:
    """Write a chat template, which sentence-transformers then writes around every text."""
    (folder / "chat_template.jinja").write_text(SEPARATED)


@pytest.mark.parametrize("around", [None, prompted, templated])
def test_the_last_word_of_a_text_counts_whatever_stands_around_it(shelf, tmp_path, around):
    folder = tmp_path / "embedder"
    shutil.copytree(shelf.embedder("BERT"), folder)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LIMIT}))
    if around is not None:
        around(folder)
    embedder = Embedder(Reference.parse(str(folder)), Settings())
    first, second = embedder.embed_all([TEXT + "midnight", TEXT + "fire"])
    assert first.tokens == second.tokens == LIMIT - 3
    assert first.windows == (1 if around is None else 2)
    assert np.abs(first.vector - second.vector).max() > 1e-3
