"""Runs by group, and who loses by what is shown."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from palate.benchmarks import Dataset, load_benchmark
from palate.comparison import check_by, evaluate, groups_of, users_harmed
from palate.comparison.by_group import by_group
from palate.errors import BenchmarkError, ComparisonError, UsageError
from palate.metrics import accuracy, group_gap, harmed_share, holm, worst_decile
from palate.records import PreferencePair, ScorerInfo, Scores, Slate
from palate.reports import group_tables
from palate.runs import ReportedEstimate, Run, load


class Counting:
    """Scores by length, or by what is shown where something is; counts what it scores."""

    info = ScorerInfo(fingerprint="counting", exact=True)

    def __init__(self) -> None:
        self.scored = 0

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        for k, slate in enumerate(slates):
            self.scored += 1
            wanted = slate.shown[0].text[-1] if slate.shown else ""
            values = tuple(len(t) + 100 * (t[-1] == wanted) for t in slate.candidates)
            yield k, Scores(values=tuple(map(float, values)))


DATES = {
    "2026-03-31T23:30:00-02:00": "2026-04",
    "2026-04-01T00:30+01:00": "2026-03",
    "Tue, 31 Mar 2026 20:00:00 -0500": "2026-04",
    "1774915200": "2026-03",
    "2026-03": "2026-03",
    "2025": "2025-01",
}
"""Dates in several forms and zones, and the months that they are of in UTC."""


def benchmark(n_users: int = 30, each: int = 6) -> Dataset:
    """Users whose longer response is right in a share that depends on age and category.

    Shown is a letter. Under a context the response that ends in it wins: it is the right one for
    two users of three.
    """
    rng, rows = np.random.default_rng(1), []
    for u in range(n_users):
        for k in range(each):
            category = "tea" if k % 2 else "wine"
            right = rng.random() < (0.85 if u % 2 else 0.55) - 0.1 * (k % 2)
            ends = ("a", "b") if u % 3 else ("b", "a")
            chosen, rejected = (f"{k} longer {ends[0]}", f"{k} {ends[1]}")
            if not right:
                chosen, rejected = f"{k} {ends[0]}", f"{k} longer {ends[1]}"
            rows.append(
                PreferencePair(
                    id=f"{u}-{k}",
                    user_id=f"u{u}",
                    text=f"Which, {u}-{k}?",
                    chosen=chosen,
                    rejected=rejected,
                    category=category if k < 5 else "",
                    traits={"age": "old" if u % 2 else "young"} if u < 24 else {},
                    subset="even" if u % 4 else "odd",
                    date=None if k == 5 else [*DATES][(u + k) % len(DATES)],
                    profile=[{"id": "p", "text": "I always take a"}],
                )
            )
    return Dataset("made", tuple(rows))


PAIRS = benchmark()


def changed(change: Callable[[PreferencePair], dict[str, object]]) -> Dataset:
    """The pairs with other fields each."""
    rows = tuple(pair.model_copy(update=change(pair)) for pair in PAIRS.pairs)
    return replace(PAIRS, rows=rows)


def both(pairs: Dataset) -> list[Run]:
    """Runs shown nothing and shown a post."""
    contexts = ("none", "profile:1")
    return [evaluate(pairs, Counting(), c, root=None, name="c") for c in contexts]


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return both(PAIRS)


@pytest.mark.parametrize(
    ("by", "label"),
    [
        ("trait:age", lambda p: p.traits.get("age", "")),
        ("category", lambda p: p.category),
        ("subset", lambda p: p.subset),
        ("month", lambda p: DATES.get(p.date, "")),
    ],
)
def test_figures_are_those_of_the_rows_of_each_group(runs, by, label) -> None:  # type: ignore[no-untyped-def]
    run = runs[0]
    view = by_group(run, by)
    value = dict(zip([p.id for p in PAIRS.pairs], run.verdicts.values, strict=True))
    names = sorted({label(p) for p in PAIRS.pairs} - {""})
    assert [group.name for group in view.groups] == names
    assert view.n_unlabelled == sum(label(p) == "" for p in PAIRS.pairs)
    for group in view.groups:
        mine = [p for p in PAIRS.pairs if label(p) == group.name]
        x, users = [value[p.id] for p in mine], [p.user_id for p in mine]
        expected = accuracy(x, users)
        assert group.accuracy.value == pytest.approx(expected.value)
        assert group.accuracy.low == pytest.approx(expected.low)
        assert (group.n_pairs, group.n_users) == (len(mine), len(set(users)))
        assert group.under_10_users == (len(set(users)) < 10)
        assert group.worst_decile["shrunken"] == pytest.approx(worst_decile(x, users)["shrunken"])


def test_the_largest_gap_is_clustered_and_corrected_over_all(runs: list[Run]) -> None:
    labelled = changed(lambda p: {"category": "xyz"[int(p.id.split("-")[1]) % 3]})
    run = evaluate(labelled, Counting(), "none", root=None, name="c")
    gap = by_group(run, "category").largest_gap
    assert gap is not None
    x, users = run.verdicts.values, run.verdicts.users
    of = np.array([p.category for p in labelled.pairs])
    tests = {}
    for a, b in (("x", "y"), ("x", "z"), ("y", "z")):
        both = (of == a) | (of == b)
        tests[a, b] = group_gap(x[both], of[both] == a, users[both])
    corrected = dict(zip(tests, holm([t.p for t in tests.values()]), strict=True))
    name = max(tests, key=lambda pair: abs(tests[pair].value or 0))
    assert {gap.a, gap.b} == set(name)
    assert gap.value == pytest.approx(abs(tests[name].value or 0))
    assert gap.p == pytest.approx(tests[name].p)
    assert gap.p_holm == pytest.approx(corrected[name])
    assert (gap.n_tested, gap.n_users) == (3, 30)
    assert gap.low is not None
    assert gap.high is not None
    assert gap.low < gap.value < gap.high
    means = {group.name: group.accuracy.value for group in by_group(run, "category").groups}
    assert means[gap.a] - means[gap.b] == pytest.approx(gap.value)  # type: ignore[operator]


def test_groups_of_few_users_say_so_and_stand_in_no_gap(runs: list[Run]) -> None:
    view = by_group(runs[0], "subset")
    assert {g.name: g.under_10_users for g in view.groups} == {"even": False, "odd": True}
    assert view.largest_gap is None


def test_who_loses_is_told_of_the_rows_scored_under_both(runs: list[Run]) -> None:
    none, shown = runs
    found = users_harmed(shown, none)
    d = shown.verdicts.values - none.verdicts.values
    by_user = {u: d[none.verdicts.users == u].mean() for u in np.unique(none.verdicts.users)}
    harmed = np.mean([mean < 0 for mean in by_user.values()])
    assert harmed == pytest.approx(1 / 3, abs=0.05), "one user in three is shown the wrong letter"
    assert found.value == pytest.approx(harmed_share(d, none.verdicts.users).value)
    assert found.n == 30
    views = groups_of([none, shown], ["trait:age"])
    assert views[0].users_harmed is None
    assert views[1].users_harmed == found


def test_who_loses_knows_which_users_share_a_question() -> None:
    none, shown = both(changed(lambda p: {"text": f"Which, {p.id.split('-')[1]}?"}))
    v, w = shown.verdicts.by_id(), none.verdicts.by_id()
    questions = [name.split("-")[1] for name, _ in v.keys]
    expected = harmed_share(v.values - w.values, v.users, questions)
    measured = users_harmed(shown, none)
    assert (measured.value, measured.low, measured.high) == pytest.approx(
        (expected.value, expected.low, expected.high)
    )
    assert measured.value != pytest.approx(harmed_share(v.values - w.values, v.users).value)


def test_a_constant_question_over_texts_of_one_user_each_shares_nothing() -> None:
    def compared(question: str | None) -> ReportedEstimate:
        def asked(p: PreferencePair) -> dict[str, object]:
            texts = {name: f"{p.id} {getattr(p, name)}" for name in ("chosen", "rejected")}
            return {"text": question or p.text, **texts}

        none, shown = both(changed(asked))
        return users_harmed(shown, none)

    expected = compared(None)
    assert compared("Which?") == expected
    assert expected.low is not None


def test_why_nobody_knows_who_loses_is_said() -> None:
    none, shown = both(changed(lambda p: {"text": "Which?"}))
    measured = users_harmed(shown, none)
    note = "no share: 0 users with rows on two questions, and 3 are needed"
    assert (measured.value, measured.note) == (None, note)
    tables = group_tables(groups_of([none, shown], ["category"]))
    assert f"harmed: {note}." in [line for table in tables for line in table.notes]


def test_rows_where_nothing_is_shown_do_not_count() -> None:
    none, shown = both(changed(lambda p: {"profile": ()} if p.id.endswith(("0", "1")) else {}))
    v, w = shown.verdicts.by_id(), none.verdicts.by_id()
    some = v.own_words > 0
    assert some.sum() == 120
    expected = harmed_share((v.values - w.values)[some], v.users[some])
    assert users_harmed(shown, none) == ReportedEstimate.of(expected)
    everything = users_harmed(none, none)
    assert (everything.value, everything.n) == (0, 30), "where neither shows anything all count"


def test_a_shuffled_file_gives_the_same_groups(runs: list[Run]) -> None:
    other = both(replace(PAIRS, rows=PAIRS.pairs[::-1]))
    for by in ("trait:age", "category", "subset"):
        assert groups_of(runs, [by]) == groups_of(other, [by])


def test_mirrored_couples_get_a_line_and_no_figure() -> None:
    tasting = evaluate("tasting", "longest", "none", root=None)
    view = by_group(tasting, "subset")
    assert view.groups == ()
    assert view.note is not None
    assert "by construction" in view.note
    with pytest.raises(ComparisonError, match="the couple is the unit"):
        users_harmed(tasting, tasting)


def test_what_is_refused(runs: list[Run]) -> None:
    none, shown = runs
    for wrong in ("", "trait:", "age", "categories"):
        with pytest.raises(UsageError, match=r"subset, category, month, user or trait:NAME"):
            by_group(none, wrong)
    with pytest.raises(BenchmarkError, match=r"no trait 'town' \(traits: age; --map"):
        check_by("trait:town", PAIRS)
    with pytest.raises(BenchmarkError, match="names a trait:town"):
        by_group(none, "trait:town")
    with pytest.raises(BenchmarkError, match="no categories"):
        check_by("category", changed(lambda p: {"category": ""}))
    check_by("category", load_benchmark("tasting"))
    with pytest.raises(ComparisonError, match="two runs of one scorer"):
        users_harmed(shown, evaluate(PAIRS, "longest", "none", root=None))
    with pytest.raises(ComparisonError, match="differ in their rows"):
        fewer = replace(PAIRS, rows=PAIRS.pairs[1:])
        users_harmed(shown, evaluate(fewer, Counting(), "none", root=None, name="c"))


def test_an_old_run_is_readable_and_gets_its_labels_without_computing(tmp_path: Path) -> None:
    scorer = Counting()
    folder = evaluate(PAIRS, scorer, "none", root=tmp_path, name="c").folder
    assert folder is not None
    labelled = load(folder)
    assert by_group(labelled, "category").groups
    path, first = folder / "rows.jsonl", scorer.scored
    bare = {"category": "", "traits": {}}
    old = [row.model_copy(update=bare).line() for row in labelled.verdicts.rows]
    path.write_text("\n".join(old) + "\n")
    with pytest.raises(BenchmarkError, match="run `palate evaluate` again"):
        by_group(Run.read(folder), "category")
    again = evaluate(PAIRS, scorer, "none", root=tmp_path, name="c")
    assert scorer.scored == first
    assert by_group(again, "category") == by_group(labelled, "category")


def teas(choices: Iterable[tuple[str, str, str]]) -> Dataset:
    """A row for each user, chosen and rejected answer."""
    rows = [
        {"id": k, "user_id": user, "question": f"Which, {k}?", "chosen": chosen,
         "rejected": rejected}
        for k, (user, chosen, rejected) in enumerate(choices)
    ]  # fmt: skip
    return Dataset.from_rows("teas", rows)


def test_users_stand_beside_scorers_those_with_most_pairs_first() -> None:
    votes = {"ann": 3, "bob": 2, "eve": 1}
    answers = {"eve": ("No.", "Yes, of course.")}
    data = teas(
        (user, *answers.get(user, ("A long answer.", "No.")))
        for user, n in votes.items() for _ in range(n)
    )  # fmt: skip
    runs = [evaluate(data, name, "none", root=None) for name in ("longest", "shortest")]
    (table,) = group_tables(groups_of(runs, ["user"]))
    assert [*table.columns] == ["user", "pairs", "longest, none", "shortest, none"]
    assert [[*row] for row in table.rows] == [
        ["ann", "3", "1.000", "0.000"], ["bob", "2", "1.000", "0.000"],
        ["eve", "1", "0.000", "1.000"],
    ]  # fmt: skip


def test_more_users_than_a_screen_holds_are_counted() -> None:
    run = evaluate(
        teas((f"u{k}", "Long one.", "No.") for k in range(60)), "longest", "none", root=None
    )
    (table,) = group_tables(groups_of([run], ["user"]))
    assert len(table.rows) == 50
    assert "10 more users: --format json has every user." in table.notes
