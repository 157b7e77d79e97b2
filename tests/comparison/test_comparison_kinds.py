"""The person or the kind: planted scorers, the two parts and their sum, wherever they show."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import palate
from command_line import write_rows
from palate.benchmarks import mirrors
from palate.comparison import compare, gains_of
from palate.errors import UsageError
from palate.records import ScorerInfo
from palate.reports import Form, comparison_tables, kind_tables, render

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import cover_of_kinds

CONTEXTS = ["none", "profile:1", "stranger:1", "stranger:1?same=region"]
SIZE = 48


def votes() -> list[dict[str, Any]]:
    """Each user writes what their region likes, and what they alone like; they choose by both."""
    stream = np.random.default_rng(1)
    rows = []
    for n in range(SIZE):
        region, own = f"r{n % 3}", f"w{n}"
        for k in range(4):
            by_region = bool(stream.random() < 0.5)
            likes = region if by_region else own
            other = f"r{(n + 1 + k % 2) % 3}" if by_region else f"w{(n + 7 * k + 5) % SIZE}"
            rows.append({
                "id": f"{n}-{k}", "user_id": f"u{n}", "question": f"What now, {n} {k}?",
                "chosen": f"more {likes} please", "rejected": f"more {other} please",
                "traits": {"region": region},
                "profile": [{"id": f"{n}", "text": f"{region} {own}"}],
            })  # fmt: skip
    return rows


def reads(letter: str) -> Any:
    """Return a scorer that knows the words of what it is shown that begin with these letters."""

    def score(question: str, response: str, user: tuple[str, ...]) -> float:
        known = {word for text in user for word in text.split() if word[0] in letter}
        return float(len(known & {*response.split()}))

    score.info = ScorerInfo(fingerprint=f"reads {letter}", exact=True)  # type: ignore[attr-defined]
    score.__name__ = {"r": "kind", "w": "person", "rw": "both"}[letter]
    return score


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Any:
    rows = palate.Dataset.of(votes(), "votes").select()
    scorers = [reads("r"), reads("w"), reads("rw"), "longest"]
    return palate.evaluate(rows, scorers, CONTEXTS, root=tmp_path_factory.mktemp("runs"))


def test_each_scorer_gains_by_what_it_knows(grid: Any) -> None:
    parts = {each.scorer: each for each in grid.kinds}
    kind, person, both, longest = (parts[it] for it in ("kind", "person", "both", "longest"))
    assert kind.individual.value == 0 == kind.individual.low == kind.individual.high
    assert kind.of_kind.low > 0.1
    assert person.individual.low > 0.1
    assert person.of_kind.low <= 0 <= person.of_kind.high
    assert both.individual.low > 0 < both.of_kind.low
    assert (longest.value, longest.stereotype_share) == (0, None), "no gain has no share"
    assert kind.stereotype_share.value == 1
    assert person.stereotype_share.low <= 0 <= person.stereotype_share.high
    assert both.stereotype_share.low < both.stereotype_share.value < both.stereotype_share.high
    for each in grid.kinds:
        assert each.value == pytest.approx(each.individual.value + each.of_kind.value)
        assert (each.same, each.context, each.n, each.n_left_out) == ("region", "profile:1", 192, 0)


def test_a_stranger_of_the_kind_moves_no_other_figure(grid: Any) -> None:
    plain = [run for run in grid.runs if "same" not in run.summary.context]
    assert gains_of(plain) == list(grid.gains)
    assert {gain.against for gain in grid.gains} == {"none", "profile:1?of=stranger"}


def test_a_trait_adds_the_contexts_that_its_parts_need(grid: Any) -> None:
    rows = palate.Dataset.of(votes(), "votes").select()
    by_trait = palate.evaluate(rows, [reads("r")], ["profile:1"], root=None, kinds="region")
    (parts,), (wanted,) = by_trait.kinds, [it for it in grid.kinds if it.scorer == "kind"]
    assert parts.model_copy(update={"p_holm": wanted.p_holm}) == wanted  # Holm is over scorers
    with pytest.raises(UsageError, match="kinds='region' makes a grid; give a list of contexts"):
        palate.evaluate(rows, reads("r"), "profile:1", root=None, kinds="region")


def test_the_parts_are_of_the_rows_that_have_all_three() -> None:
    rows = votes()
    for row in rows[:20]:
        row["traits"] = {"region": "nowhere else"} if row["user_id"] == "u0" else {}
    data = palate.Dataset.of(rows, "votes").select()
    (parts,) = palate.evaluate(data, [reads("rw")], CONTEXTS, root=None).kinds
    assert (parts.n, parts.n_left_out) == (172, 20)
    assert parts.value == pytest.approx(parts.individual.value + parts.of_kind.value)


def test_couples_take_both_of_their_rows(grid: Any) -> None:
    rows = []
    for row in votes():
        n = (int(row["user_id"][1:]) + 1) % SIZE
        mate = {
            "id": f"{row['id']}m", "user_id": f"u{n}", "question": row["question"],
            "chosen": row["rejected"], "rejected": row["chosen"], "mirror_of": row["id"],
            "traits": {"region": f"r{n % 3}"},
            "profile": [{"id": f"{n}", "text": f"r{n % 3} w{n}"}],
        }  # fmt: skip
        rows += [{**row, "mirror_of": mate["id"]}, mate]
    data = mirrors(palate.Dataset.of(rows, "couples"))
    (parts,) = palate.evaluate(data, [reads("rw")], CONTEXTS, root=None).kinds
    assert parts.n == len(data.couples) == len(rows) // 2
    assert parts.value == pytest.approx(parts.individual.value + parts.of_kind.value)


def test_tables_page_and_comparison_show_them(grid: Any, tmp_path: Path) -> None:
    text = render(kind_tables(grid.kinds), Form.TABLE)
    assert "votes: the person or the kind" in text
    comparison = compare(grid.runs)
    assert comparison.kinds == grid.kinds
    assert text.splitlines()[0] in render(comparison_tables(comparison), Form.TABLE)
    document = json.loads(grid.to_json())
    assert [it["same"] for it in document["kinds"]] == ["region"] * 4
    assert document["kinds"] == json.loads(comparison.to_json())["kinds"]
    place = grid.runs[0].folder.parents[2]
    palate.report(place, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "the person or the kind" in page and "stereotype share" in page
    without = [run for run in grid.runs if "same" not in run.summary.context]
    assert compare(without).kinds == ()
    assert "the kind" not in render(comparison_tables(compare(without)), Form.TABLE)


def test_planted_scorers_in_smaller_worlds() -> None:
    worlds = 60
    design = cover_of_kinds.Design(40, 24, 12, 4)
    stream = np.random.default_rng(7)
    drawn = [cover_of_kinds.world(stream, design) for _ in range(worlds)]
    parts = {"the kind": 1, "the person": 2}
    for knows, at in parts.items():
        held = [cover_of_kinds.covered([each[knows][at]], 0.0)[:5] == "1.000" for each in drawn]
        assert np.mean(held) >= 0.88, "0.93 in tools/cover_of_kinds.py, of 1,000 worlds"
        other = [each[knows][3 - at].value for each in drawn]
        assert np.mean(other) > 0.05, "what it knows shows"
    shares = [palate_share(each["both"]) for each in drawn]
    assert abs(np.mean(shares) - 0.5) < 0.05


def palate_share(parts: Any) -> float:
    whole, _, kind = parts
    return float(kind.value / whole.value)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "made.jsonl", votes())


def test_the_option_adds_what_is_needed_and_prints_one_block(palate: Any, rows: Path) -> None:
    code, out, err = palate("evaluate", "-b", rows, "-s", "longest", "--kinds", "region")
    assert code == 0, err
    assert "under none, profile:5, stranger:5, stranger:5?same=region" in err
    assert "made: the person or the kind" in out and "stereotype share" in out
    again = palate("evaluate", "-b", rows, "-s", "longest", "--kinds", "region")
    assert again[1] == out and "finished before: 4 runs" in again[2]
    code, out, _ = palate("evaluate", "-b", rows, "-s", "longest")
    assert "the person or the kind" not in out


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (("--kinds", "town"), "made has no trait 'town' (traits: region; --map"),
        (("--kinds", "region", "-c", "none"), "--kinds region: nothing shows a user or has states"),
        (("--kinds", "region,region"), "name each trait once"),
        (("--kinds", ""), "name each trait once"),
        (("-c", "profile:1?same=region"), "it goes with of=stranger"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(
    palate: Any, rows: Path, more: tuple[str, ...], problem: str
) -> None:
    code, _, err = palate("evaluate", "-b", rows, "-s", "longest", *more)
    assert (code, problem in err) == (2, True), err
    assert not rows.with_name("runs").exists(), "before anything is computed"
