"""How good anybody could be, as an audit, a screen and a page say it."""

from __future__ import annotations

import sys
from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from checked_rows import row, set_of
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

import shaped_votes

from palate.benchmarks import Dataset, LoadOptions, agreements, load_benchmark
from palate.comparison import evaluate, findings_of
from palate.construction import audit
from palate.metrics import Ceilings
from palate.reports.ceilings import audited_ceilings, ceiling_table
from palate.reports.page import report
from palate.reports.screen import screens
from palate.runs import VerdictRow
from palate.seeding import rng


def voted(pairs: int = 80, voters: int = 5, again: int = 0) -> Dataset:
    """Pairs with votes of so many of 40 users, mostly for the longer text; some cast again."""
    rows = []
    for pair in range(pairs):
        stream = rng("voted", pair)
        for n, user in enumerate(stream.permutation(40)[:voters]):
            texts = [f"Short {pair}.", f"A longer answer {pair}."]
            if stream.random() < 0.8:
                texts.reverse()
            for vote in range(1 + (n == 0 and pair < again)):
                fields = {"text": f"Question {pair}?", "chosen": texts[0], "rejected": texts[1]}
                rows.append(row(f"{pair}-{user}-{vote}", f"u{user}", **fields))
    return set_of(*rows)


def ceilings_of(pairs: Dataset) -> Ceilings:
    """Return those of a run: the audit's, without a scorer."""
    (run,) = evaluate(pairs, ["longest"], ["none"], root=None).runs
    return replace(run.verdicts.ceilings, accuracy=None, captured=None)


def test_an_audit_names_both_ceilings_and_what_a_scorer_captures() -> None:
    pairs = voted(again=50)
    result = audit(pairs, scorers=["longest"], root=None)
    told, (standing,) = result.summary.ceilings, result.summary.standings
    assert (told.n_pairs, told.n_votes, told.n_repeats) == (80, 450, 50)
    assert told.blind and told.personal and told.taste and told.personal[1] == pytest.approx(1)
    (run,) = evaluate(pairs, ["longest"], ["none"], root=None).runs
    assert standing.on_shared_pairs == pytest.approx(run.accuracy)
    # One door for the rows of a file and for those of a run.
    assert told.blind == pytest.approx(run.verdicts.ceilings.blind, abs=1e-9)
    assert standing.captured == run.verdicts.ceilings.captured
    table = audited_ceilings(result.summary)
    names = [line[0] for line in table.rows]
    assert names[3] == "longest, none" and names[0].endswith("B")
    assert table.rows[0][1] == f"{told.blind[0]:.3f} to {told.blind[1]:.3f}"
    assert "450 votes on 80 pairs" in table.notes[0] and "50 times" in table.notes[0]


def test_pairs_are_told_by_normal_form_and_none_that_were_chosen_by_votes() -> None:
    rows = voted().pairs
    spaced = [
        pair.model_copy(
            update={"text": f"{pair.text} ", "chosen": f" {pair.chosen}"} if k % 2 else {}
        )
        for k, pair in enumerate(rows)
    ]
    other, plain = set_of(*spaced), ceilings_of(voted())
    assert audit(other, root=None).summary.ceilings == ceilings_of(other)
    assert ceilings_of(other).blind == pytest.approx(plain.blind, abs=1e-9)
    agreed = agreements(voted())
    (table,) = [audited_ceilings(audit(agreed, root=None).summary)]
    assert table.notes == ["no ceilings: the pairs were chosen by their votes."]
    grid = evaluate(agreed, ["longest"], ["none"], root=None)
    text = " ".join(screens(grid)[0].text().split())
    assert text.count("on which all users agree, of 400 decided pairs read") == 1
    assert grid.runs[0].summary.agreed_of == 400 and "the best accuracy lies" not in str(grid)


def test_mirrored_couples_have_one_half_by_design() -> None:
    summary = audit("tasting", root=None).summary
    assert summary.ceilings.blind == (0.5, 0.5) and summary.ceilings.taste is None
    told = " ".join(audited_ceilings(summary).notes)
    assert told.startswith("B is ½ by design") and "P needs repeats" in told


def test_repeats_of_couples_that_were_chosen_for_their_votes_tell_nothing() -> None:
    texts = "Yes, do.", "No, never."
    rows = [
        {"id": f"{k}{side}", "user_id": f"u{k}{side}", "question": f"Tea {k}?",
         "chosen": texts[side], "rejected": texts[1 - side], "mirror_of": f"{k}{1 - side}",
         **({"chosen_again": texts[0]} if k else {})}
        for k in range(3) for side in (0, 1)
    ]  # fmt: skip
    summary = audit(Dataset.from_rows("teas", rows), root=None).summary
    assert summary.ceilings.personal is None
    (note,) = audited_ceilings(summary).notes
    assert "½ by design" in note and "P needs repeats beyond couples" in note


def test_one_vote_a_pair_is_not_identifiable_in_words() -> None:
    summary = audit(voted(voters=1), root=None).summary
    assert summary.ceilings.blind is None and summary.ceilings.n_pairs == 0
    table = audited_ceilings(summary)
    assert [line[1] for line in table.rows] == ["–", "–", "–"]
    assert "not identifiable: no pair has votes of two users" in table.notes[0]
    assert "Let two or more people" in table.notes[0]


def cast(*users: str, times: int = 1) -> list[dict[str, object]]:
    """Return rows without ids: each user's vote on 12 pairs, so many times."""
    texts = [{"question": f"{k}?", "chosen": f"Yes {k}.", "rejected": "No."} for k in range(12)]
    return [{"user_id": user, **each} for _ in range(times) for each in texts for user in users]


USERS = [f"u{k}" for k in range(25)]


def notes_of(rows: list[dict[str, object]]) -> tuple[Ceilings, list[str]]:
    told = ceilings_of(Dataset.of(rows, "teas").select())
    return told, list(ceiling_table("", told, ()).notes)


def test_a_file_written_twice_tells_no_second_vote() -> None:
    once, _ = notes_of(cast(*USERS))
    told, notes = notes_of(cast(*USERS, times=2))
    assert (told.copies, told.n_votes, told.n_repeats, told.personal) == (300, 300, 0, None)
    assert told.blind == once.blind and once.copies == 0
    assert notes[1] == (
        "P is not identifiable: 300 rows equal another; name an id or a date in each, or drop them."
    )
    for name, value in (("id", "{}"), ("date", "2026-03-01T00:00:{:02}Z")):
        rows = [
            {**row, name: value.format(k if name == "id" else k // 300)}
            for k, row in enumerate(cast(*USERS, times=2))
        ]
        told, _ = notes_of(rows)
        assert (told.copies, told.n_repeats) == (0, 300) and told.personal is not None


def test_ids_that_only_look_made_are_no_copies() -> None:
    names = dict(zip("abcde", range(1, 6), strict=True))
    rows = [
        {**row, "id": f"{VerdictRow.hash_of(str(row['question']))}-{names[str(row['user_id'])]}"}
        for row in cast(*names)
    ]
    told, _ = notes_of([{**row, "id": str(row["id"]).removesuffix("-1")} for row in rows])
    assert (told.copies, told.n_votes, told.n_pairs) == (0, 60, 12)
    assert notes_of(rows)[0].copies == 0


def test_a_vote_that_is_in_a_list_twice_is_no_second_vote() -> None:
    """One of another day is."""

    def lists(day: str) -> list[dict[str, object]]:
        again = [{"annotator_id": "u0", "preference": "A", "day": each} for each in ("1", day)]
        votes = [*again, *({"annotator_id": user, "preference": "A"} for user in USERS[1:])]
        two = {"response_a": "Yes.", "response_b": "No.", "annotations": votes}
        return [{"id": k, "question": f"Tea {k}?", **two} for k in range(30)]

    for day, copies in (("1", 30), ("2", 0)):
        told, _ = notes_of(lists(day))
        assert (told.copies, told.n_repeats) == (copies, 30 - copies)


def test_rows_that_name_no_user_are_nobodys_votes() -> None:
    bare = [{n: v for n, v in row.items() if n != "user_id"} for row in cast(*USERS)]
    told, notes = notes_of(bare)
    assert (told.n_pairs, told.n_votes, told.blind, told.copies) == (0, 0, None, 0)
    assert "rows that name no user are nobody's" in notes[0]
    assert notes_of([*cast(*USERS), *bare])[0].n_votes == 300


def test_second_votes_of_one_user_are_counted_each_and_tell_no_other() -> None:
    rows = [{**row, "id": k} for k, row in enumerate(cast("ann", times=3))]
    told, notes = notes_of(rows)
    assert (told.n_repeats, told.personal) == (24, None)
    assert "24 times a user voted again" in notes[0] and "or too few did" in notes[2]


def test_where_scorers_stand_repeats_no_figure_of_nothing_shown() -> None:
    summary = audit(voted(), scorers=["longest"], root=None).summary
    nothing, own, stranger = summary.standings[0].accuracy
    assert nothing is not None and own is stranger is None
    (finding,) = findings_of(evaluate(voted(), ["longest"], ["none"], root=None))
    assert finding.own_run is None and finding.nothing is finding.run


def test_few_users_are_told() -> None:
    rows = [each for each in voted().rows if int(each.user_id[1:]) < 12]
    told = ceilings_of(set_of(*rows))
    assert told.blind is None and "20 or more are needed" in str(told.note)


def test_a_screen_names_the_blind_ceiling_where_votes_tell_it() -> None:
    grid = evaluate(voted(), ["longest"], ["none"], root=None)
    low, high = grid.runs[0].verdicts.ceilings.blind or (None, None)
    text = " ".join(screens(grid)[0].text().split())
    assert f"the best accuracy lies within {low:.3f} to {high:.3f} (95 %; 80 pairs" in text
    for other in (voted(voters=1), "tasting"):
        told = screens(evaluate(other, ["longest"], ["none"], root=None))[0].text()
        assert "Without the user, the best" not in told


def test_made_files_in_public_forms_have_the_planted_ceiling(tmp_path: Path) -> None:
    shaped_votes.main(tmp_path)
    forms = {
        "raters.jsonl": load_benchmark(str(tmp_path / "raters.jsonl")),
        "alignment": load_benchmark("community-alignment", options=LoadOptions(source=tmp_path)),
        "prism": load_benchmark("prism", options=LoadOptions(source=tmp_path / "prism")),
    }
    # By hand, as two kinds of raters differ: the mean of max(p, 1 - p) over pairs of summaries.
    apart, taste = np.random.default_rng(1).normal(0, sqrt(2), (2, 100_000))
    chances = [norm.cdf((apart + sign * taste) / (0.7 * sqrt(2))) for sign in (1, -1)]
    p = np.mean(chances, axis=0)
    best = {"raters.jsonl": np.maximum(p, 1 - p).mean()} | dict.fromkeys(
        ("alignment", "prism"), 0.5
    )
    for name, pairs in forms.items():
        told = ceilings_of(pairs)
        assert told.blind and told.blind[0] - 1e-9 <= best[name] <= told.blind[1]
        assert told.personal is None and told.n_votes == len(pairs.rows)


@pytest.mark.full
def test_the_page_draws_a_bar_with_each_scorer_on_it(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    evaluate(voted(again=50), ["longest", "random"], ["none"], root=tmp_path / "runs")
    report(tmp_path / "runs", tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text("utf-8")
    assert html.count("How good anybody could be, teas") >= 1
    assert "without the user, B" in html and "with the user, P" in html
    evaluate("tasting", ["longest"], ["none"], root=tmp_path / "couples")
    report(tmp_path / "couples", tmp_path / "couples.html")
    assert "How good anybody" not in (tmp_path / "couples.html").read_text("utf-8")


@pytest.mark.full
def test_real_votes_have_a_blind_ceiling_above_length(real_data: Path) -> None:
    """The moments of the arguments' test votes are a brute-force count's."""
    pairs = load_benchmark(str(real_data / "convincing_arguments.jsonl.gz"))
    told = ceilings_of(pairs)
    votes: dict[object, dict[str, list[bool]]] = {}
    for each in pairs.pairs:
        both = each.key, *sorted((each.chosen, each.rejected))
        users = votes.setdefault(both, {})
        users.setdefault(each.user_id, []).append(each.chosen == both[1])
    shared = [users for users in votes.values() if len(users) > 1]
    assert told.n_pairs == len(shared)
    assert told.n_votes == sum(len(cast) for users in shared for cast in users.values())
    every = [cast for users in votes.values() for cast in users.values()]
    assert told.n_repeats == sum(len(cast) - 1 for cast in every)
    assert told.blind and 0.6 < told.blind[0] < 0.75 and 0.8 < told.blind[1] < 0.9
