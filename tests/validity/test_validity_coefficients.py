"""Planted scorers: the order is found, figures without a user are what recomputing gives."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from palate import metrics
from palate.benchmarks import load_benchmark
from palate.errors import ComparisonError, DataError, UsageError
from palate.evaluation import evaluate
from palate.records import Scores, Traits
from palate.reports.validity import plot_validity, validity_json, validity_tables
from palate.runs import Run
from palate.validity import benchmark_figures, read_downstream, validity
from palate.validity.downstream_file import Downstream
from palate.validity.figures import same_as_none


def test_twenty_planted_scorers_are_put_in_order(planted):
    runs, file = planted(20)
    found = validity(runs, read_downstream(file), metrics=["accuracy"])
    (one,) = found.coefficients
    tau, *_ = one.agreements
    assert one.k == 4
    assert tau.n == 20
    assert tau.value >= 0.9
    assert tau.chance.p < 0.001
    assert tau.over_scorers.low > 0.7
    assert tau.over_items.low is not None
    assert one.downstream[0] > one.downstream[-1] + 0.1
    text = "\n".join(validity_tables(found)[0].notes)
    assert "WARNING" not in text


def test_few_scorers_are_warned_of(planted):
    runs, file = planted(6)
    found = validity(runs, read_downstream(file), metrics=["accuracy"])
    (table,) = validity_tables(found)
    assert any(note.startswith("WARNING: 6 scorers show little: |τ| must reach 0.867")
               for note in table.notes)  # fmt: skip
    assert {row[2] for row in table.rows} >= {"Kendall τ-b", "RBO", "NDCG"}


def test_figures_without_a_user_are_those_of_the_others(planted):
    runs, file = planted(3, n_rows=60)
    (name, context), figures = next(iter(benchmark_figures(runs, "accuracy").items()))
    verdicts = runs[0].verdicts
    assert (name, context) == ("hazy0", "none")
    assert figures.value == pytest.approx(float(verdicts.values.mean()))
    for user, value in figures.without.items():
        assert value == pytest.approx(float(verdicts.values[verdicts.users != user].mean()))
    below = read_downstream(file, 2)[0]
    said = json.loads(file.read_text())
    column = np.array([row[1] for row in said["downstream"][0]["by_row"]])
    users = np.array(said["users"])
    own = below.figures["hazy0", "none"]
    assert own.value == pytest.approx(column.mean())
    for user, value in own.without.items():
        assert value == pytest.approx(column[users != user].mean())


class Named:
    """Gives the same scores as another scorer of palate's, by its own name."""

    def __init__(self, tilt: float) -> None:
        self.tilt = tilt
        self.traits = Traits(fingerprint=f"named {tilt}", exact=True)

    def score(self, slates):
        for k, slate in enumerate(slates):
            shown = " ".join(part.text for part in slate.shown)
            yield k, Scores(values=tuple(
                len(set(text.lower().split()) & set(shown.lower().split())) * self.tilt
                + len(text) for text in slate.candidates
            ))  # fmt: skip


def test_gains_and_mirrors_are_those_of_the_summaries():
    from palate.comparison import gains_of

    pairs = load_benchmark("tasting")
    runs: list[Run] = []
    for tilt in (0.0, 5.0, 50.0):
        for context in ("none", "profile:2", "profile:2?of=stranger"):
            runs.append(evaluate(Named(tilt), pairs, context, name=f"named{tilt:g}", root=None))
    by = {(g.scorer, g.context, g.kind): g for g in gains_of(runs)}
    for metric, kind in (("gain", "gain"), ("identity gain", "identity")):
        found = benchmark_figures(runs, metric)
        own = {c: f for c, f in found.items() if "stranger" not in c[1]}
        assert len(own) == 3
        for (scorer, context), figures in own.items():
            assert figures.value == pytest.approx(by[scorer, context, kind].value)
    for metric in ("mirrored accuracy", "shift"):
        for (scorer, context), figures in benchmark_figures(runs, metric).items():
            run = next(r for r in runs
                       if (r.summary.scorer, r.summary.context) == (scorer, context))  # fmt: skip
            told = run.summary.mirrored_accuracy if metric != "shift" else run.summary.shift
            assert figures.value == pytest.approx(told.value)
    assert benchmark_figures(runs, "accuracy") == {}, "on mirrors that is mirrored accuracy"
    with pytest.raises(ComparisonError, match="twice"):
        benchmark_figures([*runs, runs[0]], "gain")


def test_a_couple_counts_once_in_the_noise():
    pairs = load_benchmark("tasting")
    run = evaluate(Named(5.0), pairs, "profile:2", name="named", root=None)
    (figures,) = benchmark_figures([run], "mirrored accuracy").values()
    apart = np.array(list(figures.without.values())) - figures.value
    told = run.verdicts
    a, b = told.couples.T
    estimate = metrics.couple_mean(
        metrics.mirrored_values(told.values[a], told.values[b]), told.users[a], told.users[b]
    )
    variance = (len(apart) - 1) / len(apart) * float(apart @ apart)
    assert variance == pytest.approx(estimate.se**2)


def test_progress_is_told_to_the_end(planted):
    runs, file = planted(4, n_rows=40)
    other = [Run(r.summary.model_copy(update={"benchmark": "elsewhere"}), r.verdicts) for r in runs]
    told: list[tuple[int, int]] = []
    validity([*runs, *other], read_downstream(file), metrics=["accuracy"],
             progress=lambda done, total: told.append((done, total)))  # fmt: skip
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_who_has_no_partner_is_named(planted):
    runs, file = planted(4, n_rows=40)
    found = validity(runs[1:], read_downstream(file), metrics=["accuracy"])
    assert found.only_below == (("hazy0", "none"),)
    assert found.only_above == ()
    assert ("Left out for want of a benchmark run: hazy0 under none."
            in validity_tables(found)[0].notes)  # fmt: skip
    found = validity(runs, [replace(one, values=dict(list(one.values.items())[1:]))
                            for one in read_downstream(file)])  # fmt: skip
    assert found.only_above == (("hazy0", "none"),)


def test_a_scorer_that_does_not_heed_the_context_is_one_contestant():
    pairs = load_benchmark("tasting")
    contexts = ("none", "profile:2", "profile:2?of=stranger")
    runs = [
        evaluate(Named(tilt), pairs, context, name=f"named{tilt:g}", root=None)
        for tilt in (0.0, 5.0, 50.0)
        for context in contexts
    ]
    assert same_as_none(runs) == {
        ("named0", one.summary.context): ("named0", "none") for one in runs[1:3]
    }
    # What is scored in other batches is rounded otherwise; what is shown moves more than that.
    close, apart = (evaluate(Named(tilt), pairs, contexts[1], name="named0", root=None)
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
    below = Downstream(
        benchmark=pairs.name, policy="p", samples="s", quality="q", surrogate=False, k=2, n=4,
        values=values, rows={pair.id: pair.asked for pair in pairs.pairs},
        users=np.array([pair.user_id for pair in pairs.pairs]),
        questions=np.array([pair.question for pair in pairs.pairs]),
    )  # fmt: skip
    found = validity(runs, [below])
    by = {one.metric: one for one in found.coefficients}
    assert found.blind == ("named0",)
    assert len(by["mirrored accuracy"].contestants) == 5
    for metric in ("gain", "identity gain"):
        own = dict(zip(by[metric].contestants, by[metric].figures, strict=True))
        assert own["named0", "none"] == 0
        assert len(own) == 3
    assert all("stranger" in context for _, context in found.only_above)
    assert len(found.only_above) == 2
    # Where its picks under `none` are not known, it stays under the name that is.
    del values["named0", "none"]
    (one,) = validity(runs, [below], metrics=["gain"]).coefficients
    assert one.contestants[0] == ("named0", runs[1].summary.context)


def test_two_figures_are_compared_on_the_same_scorers(planted):
    runs, file = planted(8)
    other = [
        Run(run.summary.model_copy(update={"benchmark": "elsewhere"}), turned.verdicts)
        for run, turned in zip(runs, runs[::-1], strict=True)
    ]
    found = validity([*runs, *other], read_downstream(file), metrics=["accuracy"])
    (difference,) = found.differences
    tau = difference.differences[0]
    assert tau.first > 0.8
    assert tau.second < -0.8
    assert tau.p < 0.05
    said = validity_json(found)
    json.dumps(said, allow_nan=False)
    assert said["differences"][0]["n"] == 8


def test_the_picture_is_drawn(planted, tmp_path):
    runs, file = planted(4, n_rows=40)
    plot_validity(validity(runs, read_downstream(file)), tmp_path / "v.png")
    assert (tmp_path / "v.png").read_bytes()[:4] == b"\x89PNG"


def test_the_picture_tells_two_policies_apart(planted, tmp_path):
    runs, file = planted(4, n_rows=40)
    (below,) = read_downstream(file)
    both = [below, replace(below, policy="another")]
    plot_validity(validity(runs, both, metrics=["accuracy"]), tmp_path / "v.svg")
    drawn = (tmp_path / "v.svg").read_text()
    assert "by another on planted" in drawn
    assert "by p on planted" in drawn


def test_bad_input_is_one_clear_line(planted, tmp_path):
    runs, file = planted(3, n_rows=40)
    with pytest.raises(UsageError, match="has no best of 5"):
        read_downstream(file, 5)
    with pytest.raises(UsageError, match="no figure has 3 contestants"):
        validity(runs[:2], read_downstream(file))
    with pytest.raises(UsageError, match="loudness: expected one of accuracy"):
        validity(runs, read_downstream(file), metrics=["loudness"])
    other = json.loads(file.read_text())
    other["rows"] = [f"other {row}" for row in other["rows"]]
    elsewhere = tmp_path / "other.json"
    elsewhere.write_text(json.dumps(other))
    with pytest.raises(ComparisonError, match="of which the downstream results have 0"):
        validity(runs, read_downstream(elsewhere))
    bad = tmp_path / "bad.json"
    bad.write_text('{"runs": []}')
    with pytest.raises(DataError, match="no document of best-of-n"):
        read_downstream(bad)
    with pytest.raises(DataError, match="cannot be read"):
        read_downstream(tmp_path / "none.json")
