"""Planted scorers: the order is found, and how much of it is no noise."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from palate import metrics
from palate.benchmarks import load_benchmark
from palate.errors import ComparisonError, DataError, UsageError
from palate.evaluation import evaluate
from palate.metrics.ranks import reliability
from palate.records import Scores, Traits
from palate.reports.validity import plot_validity, validity_json, validity_tables
from palate.runs import Run
from palate.validity import read_downstream, validity
from palate.validity.downstream_file import Downstream
from palate.validity.figures import benchmark_units, held_together, same_as_none


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
    assert one.downstream[0] > one.downstream[-1] + 0.1
    text = "\n".join(validity_tables(found)[0].notes)
    assert "WARNING" not in text
    # 240 rows tell such scorers well apart, by what they score and by what they pick.
    assert one.reliability.value > 0.9
    assert one.downstream_reliability.value > 0.9
    assert one.noise_ceiling == pytest.approx(
        (one.reliability.value * one.downstream_reliability.value) ** 0.5
    )


def test_the_reliabilities_are_those_of_the_rows(planted):
    runs, file = planted(5, n_rows=60)
    (one,) = validity(runs, read_downstream(file, 2), metrics=["accuracy"]).coefficients
    verdicts = runs[0].verdicts
    questions = [row.question for row in verdicts.rows]
    values = np.stack([run.verdicts.values for run in runs], axis=1)
    rows = metrics.Clusters.of(verdicts.users, questions=questions)
    assert one.reliability == reliability(values, rows)
    said = json.loads(file.read_text())
    picked = np.array([[row[1] for row in entry["by_row"]] for entry in said["downstream"]]).T
    rows = metrics.Clusters.of(said["users"], questions=said["questions"])
    expected = reliability(picked, rows)
    assert one.downstream_reliability.value == pytest.approx(expected.value)
    assert one.downstream_reliability.low == pytest.approx(expected.low)
    assert one.figures == pytest.approx(values.mean(axis=0))
    assert one.downstream == pytest.approx(picked.mean(axis=0))


def test_few_scorers_are_warned_of(planted):
    runs, file = planted(6)
    found = validity(runs, read_downstream(file), metrics=["accuracy"])
    (table,) = validity_tables(found)
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
    kinds = {entry["statistic"] for entry in validity_json(found)["validity"][0]["agreements"]}
    assert kinds == {"kendall", "spearman", "weighted", "rbo", "ndcg"}


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


def benchmark_figures(runs: list[Run], metric: str) -> dict[tuple[str, str], float]:
    units = benchmark_units(runs, metric)
    return held_together(units, metric).table.figures if units else {}


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
            assert figures == pytest.approx(by[scorer, context, kind].value)
    for metric in ("mirrored accuracy", "shift"):
        for (scorer, context), figures in benchmark_figures(runs, metric).items():
            run = next(r for r in runs
                       if (r.summary.scorer, r.summary.context) == (scorer, context))  # fmt: skip
            told = run.summary.mirrored_accuracy if metric != "shift" else run.summary.shift
            assert figures == pytest.approx(told.value)
    assert benchmark_figures(runs, "accuracy") == {}, "on mirrors that is mirrored accuracy"
    with pytest.raises(ComparisonError, match="twice"):
        benchmark_figures([*runs, runs[0]], "gain")
    more = evaluate(Named(0.0), pairs, "stranger:2?draws=2", name="named0", root=None)
    with pytest.raises(ComparisonError, match=r"named0 under .* differs in draws alone") as caught:
        benchmark_figures([*runs, more], "identity gain")
    assert "\n" not in str(caught.value)


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
        values=values, rows={pair.id: pair.content for pair in pairs.pairs},
        users=np.array([pair.user_id for pair in pairs.pairs]),
        questions=np.array([pair.text for pair in pairs.pairs]),
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
