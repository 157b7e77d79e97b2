"""palate forecast: built from runs alone, dated before a rating, held against what came."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import palate
from command_line import run as typed
from pairs import register
from palate.answers import Sample, Samples
from palate.benchmarks import load_benchmark
from palate.comparison import evaluate
from palate.errors import RunError, SpecError, UsageError
from palate.learning import adapt
from palate.metrics import forecast_shares
from palate.records import Scores, Settings
from palate.runs import load, load_all, read_manifest
from palate.uses.best_of_n import best_of_n
from palate.uses.forecast import Forecast, forecast
from palate.validity import validity

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "validity"))

from planted_scorers import Hazy, truth, world

NOISES = {"keen": 0.05, "fair": 0.2, "dull": 0.6, "deaf": 3.0}
pytestmark = pytest.mark.usefixtures("cache")


class Mute(Hazy):
    """Scores answers of two words, and none that has more."""

    def score(self, slates):
        for k, slate in enumerate(slates):
            numbers = [None if len(text.split()) > 2 else 1.0 for text in slate.candidates]
            why = [None if number is not None else "too long" for number in numbers]
            yield k, Scores(values=tuple(numbers), reasons=tuple(why))


@pytest.fixture
def planted(monkeypatch, tmp_path):
    """Runs of four planted scorers, and answers of a policy."""
    register(monkeypatch, **{name: Hazy(name, noise) for name, noise in NOISES.items()})
    pairs, samples = world(120)
    for name in NOISES:
        evaluate(pairs, name, "none", root=tmp_path)
    return pairs, samples


def test_forecasts_are_written_before_a_rating_and_held_against_what_came(planted, tmp_path):
    pairs, samples = planted
    told = forecast(tmp_path, pairs, samples, ks=[2, 4], root=tmp_path)
    assert told.written.before_rating
    assert load(told.folder) == told
    cells = {cell.scorer: cell for cell in told.summary.cells}
    assert [cell.target for cell in cells.values()] == ["quality"] * 4
    assert "no best-of-n of these answers was there" in " ".join(str(told).split())
    shares = [cells[name].shares[1].value for name in NOISES]
    assert shares == sorted(shares, reverse=True)
    best = best_of_n(pairs, samples, list(NOISES), qualities=[truth()], root=tmp_path)
    again = forecast(tmp_path, pairs, samples, ks=[2, 4], root=tmp_path)
    assert again == told
    assert again.written == told.written, "the first date stays"
    assert len((told.folder / "journal.jsonl").read_text().splitlines()) == 1
    page = tmp_path / "page.html"
    palate.report(tmp_path / "planted", page)
    assert "What the best of n answers were forecast to give" in page.read_text(encoding="utf-8")
    late = forecast(tmp_path, pairs, samples, ks=[2, 4, 8], root=tmp_path)
    assert not late.written.before_rating
    assert "not shown to precede ratings" in " ".join(str(late).split())
    (score,) = validity(tmp_path, root=None).summary.forecasts
    came = {it.scorer: it.curve.points[2].oracle_share.value for it in best.summary.cells}
    both = [(it.metric_value, it.downstream_value) for it in score.scorers]
    assert sorted(both) == sorted((cells[name].shares[1].value, came[name]) for name in NOISES)
    assert (score.downstream.k, score.blind, score.late) == (4, 0, 0)
    assert score.mean_error == pytest.approx(np.mean([abs(a - b) for a, b in both]))
    assert score.error_of_zero == pytest.approx(np.mean([abs(b) for _, b in both]))
    assert score.cover >= 0.75
    assert score.tau.first == score.tau.second == 1.0
    (at_8,) = validity(tmp_path, 8, root=None).summary.forecasts
    assert (at_8.late, at_8.scorers, at_8.mean_error, at_8.tau) == (4, (), None, None)
    assert "0 / 4" in str(validity(tmp_path, 8, root=None))
    assert "forecasts and what came" in str(validity(tmp_path, root=None))


def test_a_forecast_is_one_whatever_the_working_folder(planted, tmp_path, monkeypatch):
    pairs, samples = planted
    told = forecast(tmp_path, pairs, samples, ks=[2], root=tmp_path)
    monkeypatch.chdir(tmp_path / "planted")
    assert forecast(Path(), pairs, samples, ks=[2], root=tmp_path).folder == told.folder


def test_a_forecast_is_what_margins_and_scores_give(planted, tmp_path):
    pairs, samples = planted
    (cell,) = forecast(tmp_path / "planted" / "fair", pairs, samples, root=None).summary.cells
    (run,) = load_all(tmp_path / "planted" / "fair", "run")
    forecast(run, pairs, samples, root=tmp_path)
    (scores,) = load_all(tmp_path, "scores")
    clusters = run.verdicts.clusters
    skill, shares = forecast_shares(run.verdicts.margins, clusters, scores.values, [2, 4, 8])
    assert (cell.skill, cell.shares, cell.accuracy) == (skill, shares, run.accuracy)


def test_what_cannot_be_forecast_is_refused(planted, tmp_path, monkeypatch):
    pairs, samples = planted
    (run,) = load_all(tmp_path / "planted" / "fair", "run")

    def refused(match, *given, error=UsageError, **options):
        with pytest.raises(error, match=match) as caught:
            forecast(*given, root=None, **options)
        assert "\n" not in str(caught.value)

    refused("best of 1 gains nothing", run, pairs, samples, ks=[1])
    refused("best of 9: there are 8 samples", run, pairs, samples, ks=[9])
    refused("a run in memory has no manifest", replace(run, folder=None), pairs, samples)
    refused("is of other rows than planted; name its data", run, world(40)[0], samples)
    told = forecast(run, pairs, samples, root=tmp_path)
    refused("no finished run at or under", told.folder, pairs, samples, error=RunError)
    wordy = tuple((Sample("a b c d"), Sample("x y z")) for _ in pairs.rows)
    register(monkeypatch, mute=Mute("mute", 0.0))
    mute = evaluate(pairs, "mute", "none", root=tmp_path)
    wanted = Samples("p", samples.rows, wordy)
    refused("mute gives no answer of p a score .too long.", mute, pairs, wanted)
    register(monkeypatch, fair=Hazy("another", 0.1))
    refused("fair is another here; run palate evaluate again", run, pairs, samples)
    monkeypatch.undo()
    refused("unknown scorer 'fair'", run, pairs, samples, error=SpecError)


def test_couples_are_forecast_a_contrast_and_the_blind_nothing(tiny, tmp_path):
    out = ("-o", tmp_path / "runs")
    reads = f"likelihood:{tiny.model()}"
    scorers = ("-s", "longest", "-s", reads, "-c", "profile:1", "-c", "profile:2")
    typed("evaluate", "-b", "tasting", "--limit", 8, *scorers, *out)
    policy = ("-p", f"{tiny.model()}?max_tokens=6", "-n", 4)
    wish = ("forecast", tmp_path / "runs", "--limit", 8, *policy, *out)
    said = json.loads(typed(*wish, "--format", "json"))
    assert {cell["target"] for cell in said["cells"]} == {"contrast"}
    blind = [cell for cell in said["cells"] if cell["scorer"] == "longest"]
    assert {it["value"] for cell in blind for it in cell["shares"]} == {0.0}
    (kept,) = load_all(tmp_path / "runs", "forecast")
    assert isinstance(kept, Forecast)
    assert kept.document() == said


def test_a_judge_of_pairs_is_refused(tiny, tmp_path):
    some = load_benchmark("tasting", limit=4)
    run = evaluate(some, f"judge:{tiny.model()}?verdict=logits", "none", root=tmp_path)
    with pytest.raises(
        UsageError, match=r"no scores on one scale for all users \(a judge of pairs"
    ):
        forecast(run, some, "./nowhere", root=None)


def test_a_state_of_nobody_is_forecast_and_a_users_own_is_refused(tiny, tmp_path):
    every, some = load_benchmark("tasting"), load_benchmark("tasting", limit=8)
    votes = palate.Dataset("votes", every.pairs[::2])  # a couple's two votes cancel out
    head = palate.train("bradley-terry", votes, tmp_path / "head", embedders=tiny.model()).folder
    policy = f"{tiny.model()}?max_tokens=6"
    half = {"settings": Settings(dtype="bfloat16")}
    run = evaluate(some, f"personal:{head}?state=prior", "profile:1", root=tmp_path, **half)
    (cell,) = forecast(run, some, policy, n=4, root=None, **half).summary.cells
    assert cell.target == "contrast"
    assert cell.shares[0].value, "what is shown moves its picks"
    adapt(head, votes, users := tmp_path / "users.safetensors")
    run = evaluate(some, f"personal:{head}?users={users}", "profile:1", root=tmp_path)
    with pytest.raises(UsageError, match=r"no scores on one scale .*states of users"):
        forecast(run, some, policy, n=2, root=None)


def test_a_mix_is_scored_in_the_precision_of_its_run(tiny, tmp_path):
    file, some = tmp_path / "mix.toml", load_benchmark("tasting", limit=4)
    members = [f"similarity:{tiny.model()}", f"likelihood:{tiny.model()}"]
    file.write_text(f"members = {json.dumps(members)}\nweights = [1, 1]\n", encoding="utf-8")
    half = Settings(dtype="bfloat16")
    run = evaluate(some, f"mix:{file}", "profile:1", root=tmp_path, settings=half, noise_rows=0)
    assert read_manifest(run.folder).identity["dtype"] == "bfloat16"
    policy = f"{tiny.model()}?max_tokens=6"
    (cell,) = forecast(run, some, policy, n=2, root=None).summary.cells
    assert cell.accuracy == run.accuracy
