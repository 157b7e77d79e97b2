"""palate train … -c: what is refused, in one line, and what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import command_line
from command_line import palate, write_rows


def votes(folder: Path) -> Path:
    rows = [
        {
            "id": k, "user_id": f"u{k % 3}", "question": f"Which, {k}?", "chosen": f"Tea {k}.",
            "rejected": f"Coffee {k}, hot.", "profile": [{"id": "p", "text": f"I like {k}."}],
        }
        for k in range(6)
    ]  # fmt: skip
    write_rows(folder / "bare.jsonl", [{**row, "profile": []} for row in rows])
    (folder / "users.txt").write_text("someone\nu1\n")
    (folder / "others.txt").write_text("someone\n")
    return write_rows(folder / "votes.jsonl", rows)


CLASSIFIER = "classifier --base ./none --data votes.jsonl"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (f"{CLASSIFIER} -c rubric", 2, "context rubric is an oracle: it shows gold"),
        (f"{CLASSIFIER} -c profile:2 -c rubric", 2, "context rubric is an oracle"),
        (f"{CLASSIFIER} -c profile:2+rubric", 2, "context profile:2+rubric is an oracle"),
        (f"{CLASSIFIER} -c traits", 2, "so there is no context traits"),
        (f"{CLASSIFIER} -c profile:2 -c profile:02", 2, "context profile:2 is named twice"),
        (f"{CLASSIFIER} -c profil:2", 2, "did you mean profile?"),
        (f"{CLASSIFIER} --shown-nothing 0.2", 2, "--shown-nothing: says how a context is shown"),
        (f"{CLASSIFIER} --opposite", 2, "--opposite: says how a context is shown; add one"),
        (f"{CLASSIFIER} -c profile:2 --shown-nothing 1", 2, "--shown-nothing 1: expected a share"),
        (f"{CLASSIFIER} -c profile:2 --shown-nothing=-0.1", 2, "--shown-nothing -0.1: expected"),
        (f"{CLASSIFIER} -c profile:2 --shown-nothing nan", 2, "--shown-nothing nan: expected"),
        (f"{CLASSIFIER} -c profile:2 --opposite", 2, "--opposite: votes holds no mirrored couple"),
        (
            f"{CLASSIFIER} -c profile:2 --disjoint-from votes.jsonl", 2,
            "user 'u0' is in votes.jsonl too",
        ),
        (
            "classifier --base ./none --data bare.jsonl -c profile:2", 2,
            "bare has no profiles, so there is no context profile:2",
        ),
        (
            "autoregressive --base ./none --data bare.jsonl -c profile:2", 2,
            "bare has no profiles, so there is no context profile:2",
        ),
        *(
            (f"{method} {more} --data votes.jsonl -c profile:2", 2,
             f"{method} reads nothing of the user; contexts go with autoregressive and classifier")
            for method, more in (
                ("lore", "--embedder style"), ("gpo", "--embedder style"),
                ("p-dpo", "--base ./none"), ("planner", "--base ./none"),
            )
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_in_training_is_one_line(
    tmp_path: Path, words: str, code: int, says: str
) -> None:
    votes(tmp_path)
    done = palate("train", *words.split(), "-o", "model", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("trained", "code", "says"),
    [
        ("votes.jsonl", 2, "user 'u0' is in votes too"),
        ("users.txt", 2, "users.txt: user 'u1' is evaluated in votes too (row '1')"),
        ("gone.txt", 2, "--disjoint-from gone.txt: "),
        ("others.txt", 0, ""),
        ("tasting", 0, ""),
    ],
)
def test_who_was_trained_on_is_not_evaluated(
    tmp_path: Path, trained: str, code: int, says: str
) -> None:
    votes(tmp_path)
    words = ("-b", "votes.jsonl", "-s", "longest", "-c", "none", "--disjoint-from", trained)
    done = palate("evaluate", *words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    if code:
        assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.full
def test_training_says_what_was_shown(tiny: Any, tmp_path: Path) -> None:
    file = votes(tmp_path)
    words = ("--data", file, "--base", tiny.model(), "--steps", 1, "--batch-pairs", 2,
             "--dtype", "float32", "--device", "cpu", "-c", "profile:1")  # fmt: skip
    said = command_line.run("train", "classifier", *words, "-o", tmp_path / "rm")
    assert "shown: profile:1, in 6 of 6 rows; 0 opposite votes; left out: 0 parts" in said
    more = ("--lora-rank", 2, "--held-out-users", 0.3, "--shown-nothing", 0.5)
    said = command_line.run("train", "autoregressive", *words, *more, "-o", tmp_path / "arm")
    assert "on 2 of 4 pairs" in said and "shown: profile:1, in " in said
