"""palate evaluate --users, --pressure and --agreed only, as a person uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import palate, write_rows


def vote(k: int, user: str, **more: Any) -> dict[str, Any]:
    return {"id": f"{user}{k}", "user_id": user, "question": f"Drink {k}?", "chosen": "Tea, hot.",
            "rejected": "Milk.", **more}  # fmt: skip


def posts(user: str) -> dict[str, Any]:
    return {"profile": [{"id": user, "text": f"I am {user} and row boats."}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    facts = [
        {"id": f"f{k}", "question": f"Is claim {k} true?", "chosen": "True " * (k % 3 + 1),
         "rejected": "Untrue " * (k % 4 + 1)}
        for k in range(60)
    ]  # fmt: skip
    write_rows(tmp_path / "facts.jsonl", facts)
    write_rows(tmp_path / "silent.jsonl", [vote(k, f"u{k}") for k in range(4)])
    (tmp_path / "posts.csv").write_text("user_id,text,date\nu0,I row.,2020-01-01\n")
    lent = [vote(k, f"u{u}", **posts(f"u{u}")) for k in range(3) for u in range(2 + k)]
    write_rows(tmp_path / "votes.jsonl", lent)
    return tmp_path


WORDS = ("evaluate", "-b", "facts.jsonl", "-s", "longest", "-s", "random")


def test_users_and_pressure_print_a_block_for_each(folder: Path) -> None:
    words = (*WORDS, "--users", "votes.jsonl", "--pressure", "--margin", "0.1")
    done = palate(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "under none, profile:5?users=votes.jsonl, pressure" in done.stderr
    screen = done.stdout
    first, borrowed, pressure = (
        screen.partition("facts: what profile")[0],
        *screen.split("what ")[1:],
    )
    assert borrowed.startswith("profile:5?users=votes.jsonl costs")
    assert pressure.startswith("pressure costs")
    assert "own" not in first.split()  # a borrowed user is nobody's own, and no upper bound
    assert "Upper bound" not in screen
    assert "follows [95 %]" in pressure
    assert "follows" not in borrowed
    assert "harmless: it is below 0.1 (p < 0.05, one-sided)" in borrowed
    again = palate(*words, cwd=folder)
    assert (again.returncode, again.stdout) == (0, screen)
    page = palate("report", "runs", "-o", "page.html", cwd=folder)
    assert page.returncode == 0, page.stderr
    html = (folder / "page.html").read_text(encoding="utf-8")
    assert "What it costs" in html
    assert "facts: what pressure costs" in html
    assert "it is below 0.02 (p" in html
    page = palate("report", "runs", "-o", "page.html", "--margin", "0.2", cwd=folder)
    assert page.returncode == 0, page.stderr
    assert "it is below 0.2 (p" in (folder / "page.html").read_text(encoding="utf-8")
    verified = palate("verify", "runs", "-b", "facts.jsonl", "--rescore", "100", cwd=folder)
    assert "6 passed, 0 refused" in verified.stdout, verified.stdout


def test_the_document_holds_the_costs(folder: Path) -> None:
    done = palate(
        *WORDS, "-c", "profile:1", "--users", "votes.jsonl", "--format", "json", cwd=folder
    )
    told = json.loads(done.stdout)
    assert {one["kind"] for one in told["gains"]} == set()
    assert [cost["context"] for cost in told["costs"]] == ["profile:1?users=votes.jsonl"] * 2
    assert told["costs"][0].keys() == {
        "benchmark", "scorer", "context", "nothing", "shown", "tax", "margin", "finding", "p",
        "n_needed", "follows",
    }  # fmt: skip
    assert told["costs"][0]["tax"]["n"] == 60
    (rows,) = folder.glob("runs/facts/longest/profile*/rows.jsonl")
    users = {json.loads(line)["user"] for line in rows.read_text(encoding="utf-8").splitlines()}
    assert users == {f"u{k}" for k in range(4)}


def test_agreed_pairs_have_a_tax_of_their_own_users(folder: Path) -> None:
    words = ("evaluate", "-b", "votes.jsonl", "-s", "longest", "--agreed", "only")
    done = palate(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "votes: what profile:5 costs" in done.stdout
    assert "votes · 7 pairs of 4 users" in done.stdout
    (manifest,) = folder.glob("runs/votes/longest/none-*/manifest.json")
    assert json.loads(manifest.read_text(encoding="utf-8"))["identity"]["agreed"] == "only"
    whole = palate(*words[:-2], cwd=folder)
    assert "costs" not in whole.stdout
    page = palate("report", "runs", "-o", "page.html", cwd=folder)
    assert page.returncode == 0, page.stderr
    assert "--agreed only" in (folder / "page.html").read_text(encoding="utf-8")


def test_a_margin_that_nothing_reads_is_said(folder: Path) -> None:
    done = palate(*WORDS, "--margin", "0.2", cwd=folder)
    assert done.returncode == 0
    assert "--margin 0.2 is not read: nothing is shown that could cost; add --users" in done.stderr
    words = ("evaluate", "-b", "votes.jsonl", "-s", "longest", "--agreed", "only", "-c", "none")
    done = palate(*words, "--margin", "0.2", cwd=folder)
    assert "--margin 0.2 is not read" in done.stderr
    done = palate("evaluate", "-b", "votes.jsonl", "-s", "longest", "-c", "profile:5", cwd=folder)
    page = palate("report", "runs", "-o", "page.html", cwd=folder)
    assert (done.returncode, page.returncode) == (0, 0), page.stderr


def test_two_files_of_one_name_are_two_contexts(folder: Path) -> None:
    lent = []
    for name in "ab":
        (folder / name).mkdir()
        write_rows(folder / name / "x.jsonl", [vote(0, name * 2, **posts(name * 2))])
        lent += ["-c", f"profile:1?users={name}/x.jsonl"]
    done = palate("evaluate", "-b", "facts.jsonl", "-s", "longest", "-c", "none", *lent, cwd=folder)
    assert done.returncode == 0, done.stderr
    heads = [line for line in done.stdout.splitlines() if ": what " in line]
    assert heads == ["facts: what profile:1?users=x.jsonl costs", "facts: what profile 2 costs"]
    assert "profile 2 = profile:1?users=b/x.jsonl" in done.stdout


def test_lent_users_are_listed_by_themselves_and_no_gap_is_tested(folder: Path) -> None:
    rows = [
        vote(k, f"u{u}", traits={"side": "we"[u % 2]}, **posts(f"u{u}"))
        for k in range(3)
        for u in range(24)
    ]
    write_rows(folder / "many.jsonl", rows)
    words = ("evaluate", "-b", "many.jsonl", "-s", "longest", "--users", "many.jsonl")
    done = palate(*words, "--by", "user", "--by", "trait:side", "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    gaps = {
        (it["context"], it["by"]): it["largest_gap"] is not None
        for it in json.loads(done.stdout)["groups"]
    }
    assert gaps["none", "trait:side"]
    assert not gaps["profile:5?users=many.jsonl", "trait:side"]
    screen = palate(*words, "--by", "user", cwd=folder).stdout
    assert "many: accuracy by user, 24 users" in screen
    assert "many: accuracy by user lent, " in screen
    refused = palate(*words, "--kinds", "side", "-c", "profile:1", cwd=folder)
    assert "--kinds side: lent users have no strangers" in refused.stderr


def test_rows_with_users_of_their_own_borrow_where_that_is_meant(folder: Path) -> None:
    lent = "profile:5?users=votes.jsonl"
    words = ("evaluate", "-b", "votes.jsonl", "-s", "longest")
    done = palate(*words, "-c", lent, cwd=folder)
    assert done.returncode == 2
    assert "votes: rows have users of their own; --users FILE lends others" in done.stderr
    meant = palate(*words, "--users", "votes.jsonl", cwd=folder)
    assert meant.returncode == 0, meant.stderr
    assert "votes: what profile:5?users=votes.jsonl costs" in meant.stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--users", "silent.jsonl"), "users=silent.jsonl: nobody there has posts"),
        (("--users", "gone.jsonl"), "gone.jsonl: no such file"),
        (("--users", "posts.csv"), "the flags of -b do not reach it: palate data … --posts … -o"),
        (("--users", "votes.jsonl", "-c", "rubric"), "users are lent to what shows a row's own"),
        (("--pressure", "--margin", "0.5"), "--margin 0.5: expected a fall in accuracy between"),
        (("--margin", "0"), "--margin 0: expected a fall in accuracy between 0 and 0.5"),
        (("--agreed", "all"), "--agreed all: the one choice is only"),
        (("--agreed", "only"), "facts: 3 users or more agree on no pair"),
    ],
)
def test_refusals_take_a_line(words: tuple[str, ...], problem: str, folder: Path) -> None:
    done = palate(*WORDS, *words, cwd=folder)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("palate: ")]
    assert problem in line
