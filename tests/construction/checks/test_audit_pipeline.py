"""An audit: reasons, couples whole, filters that count for nothing, what is told without a user."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from checked_rows import post, row, set_of

import palate
from palate.benchmarks import Dataset
from palate.comparison import evaluate
from palate.construction import Audit, audit
from palate.errors import SpecError, UsageError
from palate.reports.construction import audit_tables
from palate.seeding import rng


def long_rows(n: int = 40, *, longer: float = 1.0) -> Dataset:
    """Rows whose chosen answer is the longer one in this share of them, each of its own user."""
    rows = []
    for k in range(n):
        texts = [" ".join(f"q{k}w{j}" for j in range(size)) for size in (40, 60)]
        chosen, rejected = texts if rng("side", k).random() >= longer else texts[::-1]
        fields = {"text": f"What of {k}?", "chosen": chosen, "rejected": rejected}
        rows.append(row(f"r{k}", f"u{k}", profile=(post(f"I like {k}."),), **fields))
    return set_of(*rows)


def couple(number: int, answer: str = "Black, please.") -> list[Any]:
    names = f"{number}a", f"{number}b"
    sides = (answer, "With milk."), ("With milk.", answer)
    return [
        row(
            names[k], f"{'ab'[k]}{number}", text=f"Tea {number}?",
            chosen=chosen, rejected=rejected, mirror_of=names[1 - k],
        )
        for k, (chosen, rejected) in enumerate(sides)
    ]  # fmt: skip


def test_a_couple_is_whole_or_not_at_all() -> None:
    first, second = couple(2)
    leak = " ".join(f"word{k}" for k in range(13))
    first = first.model_copy(update={"profile": (post(f"I said {leak}"),), "chosen": leak})
    second = second.model_copy(update={"rejected": leak})
    result = audit(set_of(*couple(1), first, second), root=None)
    assert [(r.id, r.reasons, r.clean) for r in result.rows] == [
        ("1a", (), True),
        ("1b", (), True),
        ("2a", ("leak",), False),
        ("2b", (), False),
    ]
    told = result.summary
    assert (told.rows, told.couples, told.without_reason, told.n_kept) == (4, 2, 3, 2)
    assert told.mirrored and told.without_user == () and told.refuted == ()
    assert not result.clean


def test_what_is_not_shown_to_see_is_no_reason() -> None:
    pairs = long_rows()
    seeing, blind = (audit(pairs, blind=name, apart=0, root=None) for name in ("longest", "random"))
    assert seeing.summary.unseen == ()
    assert all(r.reasons == ("blind",) for r in seeing.rows)
    assert blind.summary.unseen == ("blind",)
    assert all(r.reasons == () and "is better by" in r.details["blind"] for r in blind.rows)
    few = audit(long_rows(20), blind="longest", apart=0, root=None)
    assert (few.summary.unseen, few.summary.sights[1].n) == (("blind",), 20)


def test_without_the_user_is_what_evaluate_gives() -> None:
    pairs = long_rows(80, longer=0.8)
    summary = audit(pairs, root=None).summary
    longest, shortest, probe = summary.without_user
    run = evaluate(pairs, "longest", "none", root=None)
    assert longest.accuracy == run.summary.accuracy
    np.testing.assert_allclose(shortest.accuracy.value, 1 - longest.accuracy.value)
    assert probe.scorer == "style probe"
    assert summary.refuted == ("longest", "shortest", "style probe")
    level = audit(long_rows(60, longer=0.5), root=None).summary
    assert level.refuted == ()
    assert "pairs needed" in level.without_user[0].words


def test_it_is_kept_without_texts_and_comes_back(tmp_path: Any) -> None:
    pairs = long_rows()
    told: dict[str, Any] = {"blind": "longest", "apart": 0, "scorers": ["shortest"]}
    result = audit(pairs, **told, root=tmp_path)
    assert result.folder is not None
    assert result.folder.parent == tmp_path / "teas" / "audit"
    assert result.folder.name.startswith("longest-")
    back = palate.load(result.folder)
    assert isinstance(back, Audit)
    assert (back.summary, back.rows) == (result.summary, result.rows)
    lines = (result.folder / "rows.jsonl").read_text().splitlines()
    assert [*json.loads(lines[0])] == ["id", "reasons", "details", "clean"]
    assert "q0w1" not in "".join(lines)
    assert str(back) == str(result)
    before = (result.folder / "summary.json").read_bytes()
    assert audit(pairs, **told, root=tmp_path).folder == result.folder
    assert (result.folder / "summary.json").read_bytes() == before
    assert audit(pairs, blind="longest", apart=1, root=tmp_path).folder != result.folder


def test_a_scorers_finding_is_that_of_a_grid() -> None:
    (standing,) = audit("tasting", scorers=["longest"], root=None).summary.standings
    assert (standing.scorer, standing.context, standing.finding) == (
        "longest",
        "profile:5",
        "blind",
    )
    assert [each and each.value for each in standing.accuracy] == [0.5, 0.5, 0.5]
    assert standing.identity is not None and standing.identity.value == 0


def test_an_embedders_vectors_stand_beside_style(tmp_path: Any) -> None:
    summary = audit(long_rows(60, longer=0.5), embedder="style", root=tmp_path).summary
    assert [each.scorer for each in summary.without_user][2:] == ["style probe", "style and style"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"gap": "0.1"}, UsageError, "--gap 0.1: a gap is of a measure; name one by --adherence"),
        ({"apart": 1.0}, UsageError, "--apart 1: it is of a scorer; name one by --blind"),
        ({"adherence": "nosuch"}, SpecError, "nosuch"),
        ({"blind": "nosuch"}, SpecError, "nosuch"),
        ({"scorers": ["nosuch"]}, SpecError, "nosuch"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        audit(long_rows(3), **options, root=None)
    assert "\n" not in str(raised.value)


def test_undecided_rows_and_votes_made_again_are_told() -> None:
    rows = [row(f"{k}", f"u{k % 3}", text=f"Tea {k // 3}?", chosen="Yes.", rejected="No.")
            for k in range(6)]  # fmt: skip
    rows += [row("6", "u0", text="Tea 0?", chosen="No.", rejected="Yes."),
             row("7", "u1", text="Tea 8?", chosen="Yes.", rejected="No.", tie=True)]  # fmt: skip
    result = audit(set_of(*rows).select(), root=None)
    table = audit_tables(result)[0]
    assert result.summary.undecided == 1
    assert table.title.endswith("7 rows, 1 undecided rows left out")
    assert any(
        "counts for P too in `chosen_again` of its user's row" in note for note in table.notes
    )
