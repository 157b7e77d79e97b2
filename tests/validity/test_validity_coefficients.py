"""Planted scorers: the order is found, and how much of it is no noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted_scorers import quality_of

from palate import metrics
from palate.benchmarks import load_benchmark
from palate.comparison import evaluate
from palate.errors import ComparisonError, UsageError
from palate.metrics import reliability
from palate.records import ScorerInfo, Scores
from palate.reports.contents import plot
from palate.reports.validity import tables as validity_tables
from palate.runs import Run
from palate.validity import METRICS, Validity, validity
from palate.validity.coefficients import compare_coefficients
from palate.validity.metric_values import benchmark_units, common_units, same_as_none


def test_the_reliabilities_are_those_of_the_rows(planted):
    runs, best = planted(5, n_rows=60)
    (one,) = validity([*runs, best], 2, metrics=["accuracy"], root=None).summary.coefficients
    verdicts = runs[0].verdicts
    questions = [row.question_hash for row in verdicts.rows]
    values = np.stack([run.verdicts.values for run in runs], axis=1)
    rows = metrics.Clusters.of(verdicts.users, questions=questions)
    assert one.reliability == reliability(values, rows)
    picked = best.expected[:, :, 1]
    assert best.figures.questions == questions
    rows = metrics.Clusters.of(best.figures.users, questions=questions)
    expected = reliability(picked, rows)
    assert one.downstream_reliability.value == pytest.approx(expected.value)
    assert one.downstream_reliability.low == pytest.approx(expected.low)
    assert metric_values(one) == pytest.approx(values.mean(axis=0))
    assert [each.downstream_value for each in one.scorers] == pytest.approx(picked.mean(axis=0))


def metric_values(one):
    return [each.metric_value for each in one.scorers]


def test_few_scorers_are_warned_of(planted):
    runs, best = planted(6)
    found = validity([*runs, best], metrics=["accuracy"], root=None).summary
    (table,) = validity_tables(Validity(found))
    assert any(note.startswith("WARNING: 6 scorers show little: |τ| must reach 0.867")
               for note in table.notes)  # fmt: skip
    (row,) = table.rows
    (one,) = found.coefficients
    tau = one.agreements[0]
    assert row[:3] == ["planted", "accuracy", "6"]
    assert row[3].startswith(f"{tau.value:.3f} [")
    assert row[4] == f"{tau.chance.p:.3f} / {one.p_holm[0]:.3f}"
    assert row[5].startswith(f"{one.reliability.value:.3f} [{one.reliability.low:.3f}, ")
    assert row[6].startswith(f"{one.downstream_reliability.value:.3f} [")
    assert row[7] == f"{one.noise_ceiling:.3f}"
    kinds = {
        entry["statistic"] for entry in Validity(found).document()["coefficients"][0]["agreements"]
    }
    assert kinds == {"kendall", "spearman"}


class Named:
    """Gives the same scores as another scorer of palate's, by its own name."""

    def __init__(self, tilt: float) -> None:
        self.tilt = tilt
        self.info = ScorerInfo(fingerprint=f"named {tilt}", exact=True)

    def score(self, slates):
        for k, slate in enumerate(slates):
            shown = " ".join(part.text for part in slate.shown)
            yield k, Scores(values=tuple(
                len(set(text.lower().split()) & set(shown.lower().split())) * self.tilt
                + len(text) for text in slate.candidates
            ))  # fmt: skip


def benchmark_figures(runs: list[Run], metric: str) -> dict[tuple[str, str], float]:
    units = benchmark_units(runs, metric)
    return common_units(units, metric).figures if units else {}


def test_gains_and_mirrors_are_those_of_the_summaries():
    from palate.comparison import gains_of

    pairs = load_benchmark("tasting")
    runs: list[Run] = []
    for tilt in (0.0, 5.0, 50.0):
        for context in ("none", "profile:2", "profile:2?of=stranger"):
            runs.append(evaluate(pairs, Named(tilt), context, name=f"named{tilt:g}", root=None))
    by = {(g.scorer, g.context, g.kind): g for g in gains_of(runs)}
    for metric, kind in (("gain", "gain"), ("identity gain", "identity")):
        found = benchmark_figures(runs, metric)
        own = {c: f for c, f in found.items() if "stranger" not in c[1]}
        assert len(own) == 3
        for (scorer, context), figures in own.items():
            assert figures == pytest.approx(by[scorer, context, kind].value)
    for metric in ("mirrored accuracy", "concordance"):
        for (scorer, context), figures in benchmark_figures(runs, metric).items():
            run = next(r for r in runs
                       if (r.summary.scorer, r.summary.context) == (scorer, context))  # fmt: skip
            told = run.summary.model_dump()[metric.replace(" ", "_")]
            assert figures == pytest.approx(told["value"])
    assert benchmark_figures(runs, "accuracy") == {}, "on mirrors that is mirrored accuracy"
    with pytest.raises(ComparisonError, match="twice"):
        benchmark_figures([*runs, replace(runs[0])], "gain")
    more = evaluate(pairs, Named(0.0), "stranger:2?draws=2", name="named0", root=None)
    with pytest.raises(ComparisonError, match=r"named0 under .* differs in draws alone") as caught:
        benchmark_figures([*runs, more], "identity gain")
    assert "\n" not in str(caught.value)


def test_who_has_no_partner_is_named(planted):
    runs, best = planted(4, n_rows=40)
    found = validity([*runs[1:], best], metrics=["accuracy"], root=None)
    assert found.summary.downstream_only == (("hazy0", "none"),)
    assert found.summary.benchmark_only == ()
    assert ("Excluded (no benchmark run): hazy0 under none."
            in validity_tables(found)[0].notes)  # fmt: skip
    _, fewer = planted(4, n_rows=40, some=slice(1, None))
    assert validity([*runs, fewer], root=None).summary.benchmark_only == (("hazy0", "none"),)


def test_a_scorer_that_does_not_heed_the_context_counts_once():
    pairs = load_benchmark("tasting")
    contexts = ("none", "profile:2", "profile:2?of=stranger")
    runs = [
        evaluate(pairs, Named(tilt), context, name=f"named{tilt:g}", root=None)
        for tilt in (0.0, 5.0, 50.0)
        for context in contexts
    ]
    assert same_as_none(runs) == {
        ("named0", one.summary.context): ("named0", "none") for one in runs[1:3]
    }
    # What is scored in other batches is rounded otherwise; what is shown moves more than that.
    close, apart = (evaluate(pairs, Named(tilt), contexts[1], name="named0", root=None)
                    for tilt in (1e-12, 1e-6))  # fmt: skip
    assert not np.array_equal(close.verdicts.margins, runs[0].verdicts.margins)
    assert len(same_as_none([runs[0], close])) == 1
    assert same_as_none([runs[0], apart]) == {}
    stream = np.random.default_rng(0)
    values = {
        (run.summary.scorer, run.summary.context): stream.random(len(pairs.pairs))
        for run in runs
        if "stranger" not in run.summary.context
    }
    below = quality_of(
        values, pairs.name, rows={pair.id: pair.content for pair in pairs.pairs},
        users=np.array([pair.user_id for pair in pairs.pairs]),
        questions=np.array([pair.text for pair in pairs.pairs]),
    )  # fmt: skip
    found = compare(runs, below)
    by = {one.metric: one for one in found.coefficients}
    assert found.context_independent == ("named0",)
    assert len(by["mirrored accuracy"].scorers) == 5
    for metric in ("gain", "identity gain"):
        own = {(each.scorer, each.context): each.metric_value for each in by[metric].scorers}
        assert own["named0", "none"] == 0
        assert len(own) == 3
    assert all("stranger" in context for _, context in found.benchmark_only)
    assert len(found.benchmark_only) == 2
    # Where its picks under `none` are not known, it stays under the name that is.
    del values["named0", "none"]
    (one,) = compare(runs, below, ["gain"]).coefficients
    assert (one.scorers[0].scorer, one.scorers[0].context) == ("named0", runs[1].summary.context)


def compare(runs, below, metrics=METRICS):
    return compare_coefficients(runs, [below], metrics, 0, lambda done, total: None)


def test_the_picture_is_drawn(planted, tmp_path):
    runs, best = planted(4, n_rows=40)
    plot(validity([*runs, best], root=None), tmp_path / "v.png")
    assert (tmp_path / "v.png").read_bytes()[:4] == b"\x89PNG"


def test_the_picture_tells_two_policies_apart(planted, tmp_path):
    runs, best = planted(4, n_rows=40)
    other = replace(best, summary=best.summary.model_copy(update={"policy": "another"}))
    plot(validity([*runs, best, other], metrics=["accuracy"], root=None), tmp_path / "v.svg")
    drawn = (tmp_path / "v.svg").read_text()
    assert "by another on planted" in drawn
    assert "by p on planted" in drawn


def test_bad_input_is_one_clear_line(planted):
    runs, best = planted(3, n_rows=40)
    with pytest.raises(UsageError, match="has no best of 5"):
        validity([*runs, best], 5, root=None)
    with pytest.raises(UsageError, match=r"no metric has 3 scorers .* spell scorers and contexts"):
        validity([*runs[:2], best], root=None)
    of_another = [
        replace(run, summary=run.summary.model_copy(update={"benchmark": "tasting"}))
        for run in runs[:2]
    ]
    with pytest.raises(UsageError, match="evaluate ran on tasting and not on planted; run palate"):
        validity([*of_another, best], root=None)
    with pytest.raises(UsageError, match="loudness: expected one of accuracy"):
        validity([*runs, best], metrics=["loudness"], root=None)
    rows = tuple(row.model_copy(update={"id": f"other {row.id}"}) for row in best.rows)
    with pytest.raises(ComparisonError, match="of which the downstream results have 0"):
        validity([*runs, replace(best, rows=rows)], root=None)
    with pytest.raises(
        UsageError, match="no finished best-of-n, decode, policy-accuracy or ppo at or"
    ):
        validity(runs, root=None)
    with pytest.raises(UsageError, match="no finished run at or under what is given"):
        validity(best, root=None)
