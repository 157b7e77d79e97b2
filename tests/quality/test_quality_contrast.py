"""What is good for anybody drops out: a scorer blind to the user is at exactly one half."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from measures import Planted
from pairs import register
from palate.answers import Sample, Samples
from palate.benchmarks import Dataset, load_benchmark
from palate.errors import UsageError
from palate.evaluation import Work
from palate.quality import contrast_samples, rate_samples
from palate.records import ScorerInfo, Scores, user_key
from palate.uses.best_of_n import best_of_n


class Alike(Planted):
    """Quality: the share of the chosen response's words that an answer has; long ones gain."""

    def __init__(self) -> None:
        super().__init__("alike", lambda question, text: share(question.chosen, text))


def share(wanted, text):
    words = set(wanted.lower().split())
    return len(words & set(text.lower().split())) / len(words)


class Knowing:
    """Scores by the words that an answer shares with what is shown of the user."""

    info = ScorerInfo(fingerprint="knowing", exact=True)

    def score(self, slates):
        for k, slate in enumerate(slates):
            shown = set(" ".join(part.text for part in slate.shown).lower().split())
            yield k, Scores(values=tuple(
                float(len(shown & set(text.lower().split()))) for text in slate.candidates
            ))  # fmt: skip


@pytest.fixture
def tasting(tmp_path, monkeypatch):
    """Return couples, and samples with the words of one wanted answer or the other, for both."""
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path))
    pairs = load_benchmark("tasting")
    stream = np.random.default_rng(0)
    of_question = {}
    for pair in pairs.pairs:
        if pair.text not in of_question:
            of_question[pair.text] = tuple(
                Sample(" ".join(stream.choice(words.split(), int(stream.integers(3, 60)))))
                for words in (pair.chosen, pair.rejected) * 4
            )
    own = tuple(of_question[pair.text] for pair in pairs.pairs)
    return pairs, Samples("mixed", tuple(pair.id for pair in pairs.pairs), own)


def with_references(pairs: Dataset) -> Dataset:
    """Gold that a rating is kept by: the row's reference."""
    return replace(pairs, rows=tuple(
        p.model_copy(update={"gold": p.gold.model_copy(update={"reference": p.chosen})})
        for p in pairs.pairs
    ))  # fmt: skip


def test_a_contrast_is_ones_own_quality_less_the_mirrors(tasting):
    pairs, samples = tasting
    pairs = with_references(pairs)
    measure = Alike()
    own = rate_samples(measure, samples, pairs, Work.of())
    once = len(measure.rated)
    found = contrast_samples(measure, own, samples, pairs, Work.of())
    assert len(measure.rated) == once, "both users share their samples, so nothing is rated anew"
    assert found.quality == "contrast of alike"
    place = {pair.id: k for k, pair in enumerate(pairs.pairs)}
    mirror = [place[pair.mirror_of] for pair in pairs.pairs]
    assert found.values == pytest.approx((1 + own.values - own.values[mirror]) / 2)
    assert found.values + found.values[mirror] == pytest.approx(1)
    assert found.values.std() > 0.04


def test_a_blind_scorer_is_at_one_half_however_good_its_picks_are(tasting, monkeypatch):
    pairs, samples = tasting
    pairs = with_references(pairs)
    register(monkeypatch, knowing=Knowing())
    found = best_of_n(
        pairs, samples, ["longest", "random", "shortest", "knowing"], ["rubric"], [Alike()],
        contrast=True, root=None,
    )  # fmt: skip
    curves = {(one.scorer, one.quality): one.curve for one in found.summary.cells}
    blind = ("longest", "random", "shortest")
    for name in blind:
        for point in curves[name, "contrast of alike"].points:
            assert point.best.value == pytest.approx(0.5, abs=1e-12)
    plain = curves["longest", "alike"]
    assert plain.points[-1].best.value > plain.random.value + 0.05
    (knowing,) = {one.scorer for one in found.summary.cells} - set(blind)
    last = curves[knowing, "contrast of alike"].points[-1]
    assert 0.5 < last.best.value < last.oracle.value


def test_without_mirrors_there_is_no_contrast(tasting):
    pairs, samples = tasting
    alone = replace(pairs, rows=pairs.pairs[:1], mirrored=False)
    with pytest.raises(UsageError, match="tasting: a contrast needs mirrored couples"):
        best_of_n(alone, samples, ["longest"], ["none"], [Alike()], contrast=True, root=None)


def test_what_one_row_of_a_couple_lacks_is_taken_from_both(tasting, monkeypatch):
    pairs, samples = tasting
    pairs = with_references(pairs)

    class Deaf:
        """Leaves the first answer of every row of one user unscored."""

        info = ScorerInfo(fingerprint="deaf", exact=True, needs_user=True)

        def score(self, slates):
            for k, slate in enumerate(slates):
                said = [float(len(text)) for text in slate.candidates]
                deaf = slate.user == user_key(pairs.pairs[0].user_id)
                values = (None, *said[1:]) if deaf else tuple(said)
                reasons = ("deaf", *(None for _ in said[1:])) if deaf else ()
                yield k, Scores(values=values, reasons=reasons)

    register(monkeypatch, deaf=Deaf())
    scorers = ["longest", "deaf"]
    place = {pair.id: k for k, pair in enumerate(pairs.pairs)}
    mirror = place[pairs.pairs[0].mirror_of]
    found = best_of_n(pairs, samples, scorers, ["none"], [Alike()], contrast=True, root=None)
    assert any(one.unscored_reasons for one in found.summary.cells)
    assert found.mirrors[0] == mirror
    for k, one in enumerate(found.summary.cells):
        if one.contrast:
            assert one.curve.points[-1].best.value == pytest.approx(0.5, abs=1e-12)
            left_out = np.isnan(found.expected[:, k])
            assert (left_out[0] == left_out[mirror]).all()
