"""palate study plan as a person uses it: the screen, the folder, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from command_line import palate, write_rows
from palate.study import read_study


@pytest.fixture
def teas(tmp_path: Path) -> Path:
    """A hundred pairs of users of whom one has no posts, and questions with responses."""
    rows = [
        {
            "id": f"r{k}", "user_id": f"u{k % 10}", "question": f"What of {k}?",
            "chosen": f"{k}: a", "rejected": f"{k}: b",
            "profile": [{"id": f"p{k % 10}", "text": f"u{k % 10} wrote it"}] if k % 10 else [],
        }
        for k in range(100)
    ]  # fmt: skip
    write_rows(tmp_path / "teas.jsonl", rows)
    asked = [
        {"id": f"q{k}", "question": f"What of {k}?", "responses": [f"{k}: {x}" for x in "abc"]}
        for k in range(60)
    ]
    write_rows(tmp_path / "asked.jsonl", asked)
    write_rows(tmp_path / "one.jsonl", rows[:1])
    write_rows(tmp_path / "bare.jsonl", [{**row, "profile": []} for row in rows])
    return tmp_path


def test_the_plan_of_tasting(tmp_path: Path) -> None:
    done = palate("study", "plan", "-b", "tasting", "-o", "study", "--raters", "15", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert done.stdout == snapshot("""\
study of tasting: 48 pairs of answers, 15 raters

 context      asks                             items   rows
 ──────────────────────────────────────────────────────────
 none         which is better, and ratings        48     96
 profile:5    which would this person prefer      96     96
 stranger:5   which would this person prefer      96     96

Each item goes to 3 raters. A rater gets 48 items, and no pair of answers twice.
Each gets 4 of 20 checks too; who fails more than 1 is excluded.

power to show that chosen and rejected are rated alike, within 0.25 points

 spread of raters   power
 ────────────────────────
 0.08               0.452
 0.3                0.194

For a true difference of 0; 48 pairs × 3 ratings.
48 of them are mirrored couples: there the difference is 0 by law, so nothing is to be tested.

raters will read: 338 texts of 32 users (arts-01, arts-02, arts-03, …): be sure that you may.
""")
    study = read_study(tmp_path / "study")
    assert study.plan.consent and study.plan.texts and study.plan.traits
    gold = (tmp_path / "study" / "gold.jsonl").read_text().splitlines()
    assert len(gold) == 288


def test_rows_without_posts_are_left_out_aloud_and_power_is_said(teas: Path) -> None:
    done = palate(
        *("study", "plan", "-b", "teas.jsonl", "-o", "study", "--raters", "12"),
        *("--margin", "0.5", "--seed", "3", "--per-pair", "2"),
        cwd=teas,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == snapshot("""\
study of teas: 100 pairs of answers, 12 raters

 context      asks                             items   rows
 ──────────────────────────────────────────────────────────
 none         which is better, and ratings       100    100
 profile:5    which would this person prefer      90     90
 stranger:5   which would this person prefer      90     90

10 rows: nothing to show under profile:5, so left out.
10 rows: nothing to show under stranger:5, so left out.
Each item goes to 2 raters. A rater gets 46 or 47 items, and no pair of answers twice.
Each gets 4 of 24 checks too; who fails more than 1 is excluded.

power to show that chosen and rejected are rated alike, within 0.5 points

 spread of raters   power
 ────────────────────────
 0.08               1.000
 0.3                0.978

For a true difference of 0; 100 pairs × 2 ratings.

raters will read: 9 texts of 9 users (u1, u2, u3, …): be sure that you may.
""")
    plan = read_study(teas / "study").plan
    assert (plan.margin, plan.seed, plan.per_pair) == (0.5, 3, 2)


def test_there_is_no_power_without_ratings_or_checks(teas: Path) -> None:
    words = ("-b", "teas.jsonl", "-o", "s", "--raters", "9", "-c", "profile:1")
    done = palate("study", "plan", *words, "--format", "json", cwd=teas)
    document = json.loads(done.stdout)
    assert document["hash"] == read_study(teas / "s").plan.hash
    assert document["study of teas: 90 pairs of answers, 9 raters"]["items"] == [90]
    for name, more in (("t", "-c profile:1"), ("u", "-c none --checks 0")):
        done = palate("study", "plan", *words[:2], "-o", name, *words[4:6], *more.split(), cwd=teas)
        assert "power: none, for equivalence needs ratings (-c none) and checks." in done.stdout


def test_one_rater_and_one_pair_are_no_plurals(teas: Path) -> None:
    words = "-b one.jsonl -o small --raters 1 --per-pair 1 -c none --checks 0 --no-ratings"
    done = palate("study", "plan", *words.split(), cwd=teas)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("study of one: 1 pair of answers, 1 rater\n")
    assert "Each item goes to 1 rater. A rater gets 1 item, and" in done.stdout
    done = palate("study", "status", "small", cwd=teas)
    assert done.stdout.startswith("small: 0 answers; 0 of 1 rater finished\n")


def test_a_collection_is_planned(teas: Path) -> None:
    done = palate(
        *("study", "plan", "-b", "asked.jsonl", "-o", "study", "--raters", "4", "--collect"),
        *("--per-rater", "30", "--test-share", "0.5"),
        cwd=teas,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == snapshot("""\
collection on asked: 4 raters

 split   pairs
 ─────────────
 test       69
 adapt     111

Each is asked 30 pairs: 50 % test pairs, in one order for all; 10 % an earlier one again; the rest
drawn at random.
""")
    plan = read_study(teas / "study").plan
    assert (plan.mode, plan.per_rater, plan.test_share) == ("collect", 30, 0.5)
    assert plan.consent and plan.texts and plan.traits


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-b tasting --raters 14", "--raters 14: expected 15 to 720"),
        ("-b teas.jsonl --raters 9 -o .", ".: exists; a plan is made once, so name another folder"),
        ("-b bare.jsonl --raters 9 -c profile:5", "bare has no profiles, so there is no context"),
        ("-b one.jsonl --raters 9 -c none", "--raters 9: expected 3 to 3"),
        ("-b one.jsonl --raters 3 -c none", "one question only, so no checks; --checks 0"),
        ("-b asked.jsonl --raters 9", "`chosen` and `rejected`"),
        ("-b tasting --raters 15 -c rubric", "-c rubric: shows gold, which no page may hold"),
        ("-b tasting --raters 15 --per-pair 0", "--per-pair 0: expected 1 to 1000"),
        ("-b tasting --raters 15 --checks -1", "--checks -1: expected 0 to 100"),
        ("-b tasting --raters 15 --margin 0", "--margin 0.0: expected 0.01 to 2"),
        ("-b tasting --raters 15 --consent no.md", "--consent no.md: cannot be read"),
        ("-b tasting --raters 15 --texts no.toml", "--texts no.toml: cannot be read"),
        ("-b tasting --raters 15 --again 0.2", "--again: an option of a study with --collect"),
        ("-b tasting --raters 15 --model x", "--model: an option of a study with --collect"),
        ("-b asked.jsonl --raters 3 --collect -c none", "--context: an option of a study without"),
        ("-b teas.jsonl --raters 3 --collect", "`responses`"),
        ("-b asked.jsonl --raters 3 --collect --texts no.toml", "--texts no.toml: cannot be read"),
        ("-b nowhere.jsonl --raters 3", "nowhere.jsonl"),
    ],
)
def test_mistakes_are_one_line(teas: Path, words: str, message: str) -> None:
    output = () if " -o " in words else ("-o", "study")
    done = palate("study", "plan", *words.split(), *output, cwd=teas)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (teas / "study").exists()
