"""Policy accuracy as a result: identities, controls, relative weights, what costs no model call."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import palate
from palate.benchmarks import Dataset, load_benchmark
from palate.comparison import evaluate
from palate.errors import ComparisonError, RunError, UsageError
from palate.learning import fit
from palate.records import Choice, Settings
from palate.runs import load_all
from palate.session import Session
from palate.specs import Spec
from palate.uses.policy_accuracy import policy_accuracy
from palate.uses.policy_curves import PolicyAccuracy
from palate.uses.steering import split
from palate.validity import joined, validity

INF = float("inf")
WORDS = ("tea", "coffee", "milk", "water", "cocoa", "juice", "wine", "beer")


pytestmark = pytest.mark.usefixtures("cache")


def drinks(n: int = 24, past: int = 0) -> Dataset:
    """Users with a post each; with `past`, earlier choices on other questions."""
    draw = random.Random(3)
    rows = []
    for k in range(n + past):
        liked, other = draw.sample(WORDS, 2)
        rows.append({
            "id": f"q{k}", "user_id": f"u{k % 6}", "question": f"What shall I drink at {k}?",
            "profile": [{"id": f"p{k % 6}", "text": f"I like {WORDS[k % 6]} and cake."}],
            "chosen": f"Some {liked}, {'warm ' * (k % 3)}please.", "rejected": f"A cup of {other}.",
            "split": "test" if k < n else "adapt",
        })  # fmt: skip
    return Dataset.from_rows("drinks", rows).select("test" if past else None)


def curve(result: PolicyAccuracy, context: str, reading: str = "sum", cell: int = 0):
    found = [c for c in result.summary.cells if c.context == context][cell]
    return found, next(each for each in found.readings if each.reading == reading)


def test_the_ends_of_the_curve_are_the_policy_and_the_reward(tiny, tmp_path):
    model, pairs = tiny.model(), drinks()
    guide = f"likelihood:{tiny.model(initializer_range=0.5)}"
    result = policy_accuracy(pairs, model, guide, "profile:1", weights=[0, 1, INF], root=tmp_path)
    contexts = [cell.context for cell in result.summary.cells]
    assert contexts == ["none", "profile:1", "profile:1?of=stranger"]
    base = evaluate(pairs, f"policy:{model}?guide=longest&weight=0", "none", root=None)
    for context in contexts:
        reward = evaluate(pairs, guide, context, root=None).summary.accuracy
        cell, points = curve(result, context)
        assert cell.reward == reward
        assert points.base == points.points[0].accuracy == base.summary.accuracy
        assert points.points[-1].accuracy.value == reward.value
        _, ratio = curve(result, context, "ratio")
        assert [point.accuracy for point in ratio.points] == [reward] * 3
    assert palate.load(result.folder).summary == result.summary
    assert palate.load(result.folder).rows == result.rows
    assert "policy accuracy" in str(result)


def test_a_point_of_the_curve_is_the_scorer_evaluated(tiny, tmp_path):
    model = tiny.model()
    spec = f"policy:{model}?guide=likelihood:{model}&weight=2&read=mean"
    run = evaluate("tasting", spec, "profile:1", root=tmp_path)
    result = policy_accuracy(
        "tasting", model, f"likelihood:{model}", "profile:1", weights=[2], root=tmp_path
    )
    _, points = curve(result, "profile:1", "mean")
    assert points.points[0].accuracy == run.summary.mirrored_accuracy


def test_a_policy_blind_to_the_user_is_at_one_half_on_couples(tiny):
    result = policy_accuracy("tasting", tiny.model(), "longest", ["none"], weights=[0, 1, 8])
    for reading in result.summary.cells[0].readings:
        assert {point.accuracy.value for point in reading.points} == {0.5}
        assert reading.chosen == (0.0,)


def test_further_weights_and_finished_work_read_no_model(tiny, tmp_path, monkeypatch):
    model, pairs = tiny.model(), drinks()
    wish = {"scorers": f"lift:{model}", "contexts": "profile:1", "root": tmp_path}
    first = policy_accuracy(pairs, model, weights=[0, 1], **wish)
    before = (first.folder / "summary.json").read_bytes()
    monkeypatch.setattr("palate.engines.local_model.LocalModel.read", None)  # nothing is read
    again = policy_accuracy(pairs, model, weights=[0, 1], session=Session(), **wish)
    assert (again.folder / "summary.json").read_bytes() == before
    more = policy_accuracy(pairs, model, weights=[0, 0.5, 1, 4, INF], session=Session(), **wish)
    assert more.folder != first.folder
    assert curve(more, "profile:1")[1].points[2] == curve(first, "profile:1")[1].points[1]


def test_a_killed_command_goes_on(tiny, tmp_path, monkeypatch):
    from palate.engines import LocalModel

    model, pairs = tiny.model(), drinks()
    wish = {"scorers": f"likelihood:{model}", "contexts": "profile:1", "weights": [0, 2]}
    whole = policy_accuracy(pairs, model, root=tmp_path / "whole", **wish)
    real, calls = LocalModel.read, []

    def stops(self, groups, reduce, *, logits=False):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, groups, reduce, logits=logits)

    monkeypatch.setattr(LocalModel, "read", stops)
    with pytest.raises(KeyboardInterrupt):
        policy_accuracy(pairs, model, root=tmp_path / "cut", **wish)
    with pytest.raises(RunError, match="no finished"):
        load_all(tmp_path / "cut")
    stopped = len(calls)
    resumed = policy_accuracy(pairs, model, root=tmp_path / "cut", **wish)
    (tmp_path / "fresh").mkdir()
    there = len(calls) - stopped
    policy_accuracy(pairs, model, root=tmp_path / "fresh", **wish)
    assert there < len(calls) - stopped - there
    names = ("summary.json", "rows.jsonl")
    assert [(resumed.folder / n).read_bytes() for n in names] == [
        (whole.folder / n).read_bytes() for n in names
    ]


@given(st.randoms(use_true_random=False))
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_order_of_the_rows_changes_nothing(tiny, draw):
    pairs = drinks()
    rows = list(pairs.rows)
    draw.shuffle(rows)
    wish = {"scorers": "shortest", "weights": [0, 1, INF], "relative": True, "root": None}
    there = policy_accuracy(pairs, tiny.model(), **wish).summary
    back = policy_accuracy(replace(pairs, rows=tuple(rows)), tiny.model(), **wish).summary
    assert there == back


@pytest.mark.parametrize("scale", [1e-3, 50])
def test_relative_weights_know_no_units_of_the_reward(tiny, scale):
    model = tiny.model()
    other = tiny.model(initializer_range=0.5)
    wish = {"contexts": "none", "weights": [0.5, 2], "relative": True, "root": None}
    one, many = (
        policy_accuracy(drinks(), model, f"autoregressive:{other}?beta={beta:g}", **wish).summary
        for beta in (1, scale)
    )
    assert one.cells[0].readings == many.cells[0].readings
    assert one.cells[0].unit == pytest.approx(many.cells[0].unit * scale)


def test_whole_questions_are_set_aside_where_nothing_else_is_there():
    pairs = load_benchmark("tasting")
    parts = split(pairs, 0, relative=True, reads_choices=False)
    assert parts.source == "set aside"
    assert parts.evaluated.mirrored and parts.reserved.mirrored
    assert len(parts.reserved.rows) == 24 and len(parts.evaluated.rows) == 72
    asked = [{row.text for row in side.rows} for side in (parts.evaluated, parts.reserved)]
    assert not asked[0] & asked[1]


def test_rows_that_a_limit_left_out_come_before_that():
    pairs = load_benchmark("tasting").limit(20, 0)
    parts = split(pairs, 0, relative=True, reads_choices=False)
    assert parts.source == "left out"
    assert len(parts.evaluated.rows) == 40 and len(parts.reserved.rows) == 56


def test_earlier_choices_come_first_unless_they_are_read(tiny):
    pairs = drinks(24, past=30)
    parts = split(pairs, 0, relative=False, reads_choices=False)
    assert (parts.source, len(parts.reserved.rows)) == ("adapt", 30)
    assert split(pairs, 0, relative=False, reads_choices=True).source is None
    result = policy_accuracy(
        pairs, tiny.model(), "longest", "none", weights=[0, 1, 4], relative=True, root=None
    )
    assert result.summary.chosen_on == "adapt"
    assert result.summary.reserved.source == "adapt"
    assert all(len(each.chosen) == 1 for each in result.summary.cells[0].readings)
    assert result.summary.n_rows == 24


def test_earlier_choices_without_posts_reserve_nothing_where_posts_are_shown(tiny):
    pairs = drinks(24, past=30)
    bare = replace(
        pairs, history=tuple(row.model_copy(update={"profile": ()}) for row in pairs.history)
    )
    result = policy_accuracy(
        bare, tiny.model(), "longest", "profile:1", weights=[0, 1], root=None
    )  # fmt: skip
    assert (result.summary.chosen_on, result.summary.reserved) == ("folds", None)
    assert split(bare, 0, relative=False, reads_choices=False).source == "adapt"


def test_too_few_rows_leave_no_unit(tiny):
    with pytest.raises(UsageError, match="leave none to set the unit of relative weights"):
        policy_accuracy(drinks(2), tiny.model(), "longest", relative=True, root=None)


def test_without_a_guide_the_policy_is_shown_the_user(tiny):
    model, pairs = tiny.model(), drinks()
    result = policy_accuracy(pairs, model, (), "profile:1", root=None)
    run = evaluate(pairs, f"policy:{model}", "profile:1", root=None)
    _, points = curve(result, "profile:1")
    assert points.points[0].accuracy == run.summary.accuracy
    assert points.points[0].weight == 1
    none, _ = curve(result, "none")
    assert none.reward.value == 0.5  # nothing is shown: the ratio ties
    assert not result.summary.guided and "what it is shown" in str(result)


def test_a_decoder_has_a_curve_of_one_reading_per_model(tiny, monkeypatch, tmp_path):
    from palate.engines import LocalModel

    model, pairs = tiny.model(), drinks(12)
    other, real, read = tiny.model(initializer_range=0.5), LocalModel.outputs, []
    monkeypatch.setattr(
        LocalModel, "outputs", lambda self, groups: read.append(1) or real(self, groups)
    )
    wish = {"scorers": f"autoregressive:{other}", "contexts": "none", "root": tmp_path}
    result = policy_accuracy(
        pairs, model, method="genarm", weights=[0, 0.1, 0.25, 0.5, 1, 2, 4, 8, INF], **wish
    )
    assert len(read) == 2 * 12  # policy and guide, once a question
    cell, points = curve(result, "none")
    base = evaluate(pairs, f"policy:{model}?guide=longest&weight=0", "none", root=None)
    assert points.points[0].accuracy == base.summary.accuracy
    assert (cell.misses.missed, result.summary.score) == (0, "decoder")
    _, ratio = curve(result, "none", "ratio")
    assert ratio.base == points.base
    pad = policy_accuracy(pairs, model, method="pad", weights=[0, 1], **wish)
    assert pad.summary.cells[0].misses.missed > 0
    assert "are outside the candidates" in " ".join(str(pad).split())


def test_validity_finds_policy_accuracies(tiny, tmp_path):
    model, pairs = tiny.model(), drinks()
    scorers = ["longest", "shortest", f"likelihood:{model}", "random"]
    for scorer in scorers:
        evaluate(pairs, scorer, "none", root=tmp_path)
    result = policy_accuracy(pairs, model, scorers, "none", relative=True, root=tmp_path)
    found = validity(tmp_path / "drinks", metrics=["accuracy"], root=tmp_path)
    qualities = [each.downstream.quality for each in found.summary.coefficients]
    assert qualities == ["policy accuracy by tilt, sum", "policy accuracy by tilt, mean"]
    assert found.summary.coefficients[0].downstream.k is None
    assert found.folder.parent.parent == result.folder.parent.parent
    assert "policy accuracy by tilt, sum of" in str(found)
    assert json.loads((found.folder / "summary.json").read_text())["kind"] == "validity"
    values = {c.scorer: c.readings[0].accuracy.value for c in result.summary.cells}
    assert {
        s.scorer: pytest.approx(s.downstream_value) for s in found.summary.coefficients[0].scorers
    } == values


def test_validity_reads_a_policy_without_a_guide_beside_its_runs(tiny, tmp_path):
    pairs, models = drinks(), [tiny.model(), tiny.model(initializer_range=0.5)]
    for context in ("none", "profile:1", "profile:1?of=stranger"):
        evaluate(pairs, f"policy:{models[0]}", context, root=tmp_path)
    policy_accuracy(pairs, models[0], (), "profile:1", root=tmp_path)
    found = validity(tmp_path / "drinks", metrics=["accuracy"], root=tmp_path)
    assert {len(each.scorers) for each in found.summary.coefficients} == {3}


def test_validity_joins_no_weights_that_other_rows_chose(tiny):
    result = policy_accuracy(drinks(), tiny.model(), "longest", "none", root=None)
    other = replace(result, summary=result.summary.model_copy(update={"chosen_on": "adapt"}))
    assert len(joined([*result.downstream(), *other.downstream()])) == 4
    assert len(joined([*result.downstream(), *result.downstream()])) == 2


def test_validity_without_a_common_row_is_one_line(tiny):
    result = policy_accuracy(drinks(), tiny.model(), ["longest", "shortest"], "none", root=None)
    half = len(result.summary.columns) // 2
    none = (None,) * half
    rows = tuple(
        row.model_copy(update={
            "values": (*row.values[:half], *none) if k % 2 else (*none, *row.values[half:])
        })
        for k, row in enumerate(result.rows)
    )  # fmt: skip
    with pytest.raises(ComparisonError, match="no row with a value of every scorer"):
        replace(result, rows=rows).downstream()


def test_agreement_is_over_scorers_that_a_context_moves(tiny):
    result = policy_accuracy(
        drinks(), tiny.model(), ["longest", "shortest", "random"], "profile:1", weights=[0, 1, INF],
        root=None,
    )  # fmt: skip
    tau = {(a.reading, a.weight): a.agreement for a in result.summary.agreements}
    assert {each.n for each in tau.values()} == {3}  # none of the three is moved
    assert tau["sum", 0].value is None
    assert tau["sum", "inf"].value == pytest.approx(1)
    assert tau["ratio", 1].value == pytest.approx(1)
    assert np.isnan(result.values).sum() == 0


def moods() -> list[dict[str, str]]:
    """Six loud users and six calm ones; what one half chooses the other rejects."""
    rows = []
    for part, days in (("adapt", range(6)), ("test", range(10, 13))):
        for user in range(12):
            for day in days:
                both = [f"Go now! Run! Win {'day ' * day}!!", f"Perhaps rest, {'day ' * day}."]
                chosen, rejected = both if user % 2 else both[::-1]
                rows.append({
                    "id": f"{part}-{user}-{day}", "user_id": f"u{user}", "split": part,
                    "question": f"What now, on day {day}?", "chosen": chosen, "rejected": rejected,
                })  # fmt: skip
    return rows


def test_a_personal_guide_is_read_in_three_states_and_never_chooses_on_its_choices(tiny, tmp_path):
    pairs = Dataset.from_rows("moods", moods()).select()
    history = {
        user: [
            Choice(question=row.text, chosen=row.chosen, rejected=row.rejected)
            for row in pairs.history if row.user_id == user
        ]
        for user in {row.user_id for row in pairs.history}
    }  # fmt: skip
    (tmp_path / "heads").mkdir()
    fit("user-heads", history, ["style"], Session(), Settings()).save(tmp_path / "heads")
    guide = f"personal:{tmp_path / 'heads'}"
    result = policy_accuracy(
        pairs, tiny.model(), guide, weights=[0, 1, INF], root=tmp_path / "runs"
    )
    assert result.summary.chosen_on == "folds"
    own, prior, stranger = result.summary.cells
    assert [cell.scorer for cell in result.summary.cells] == [
        guide,
        f"{guide}?state=prior",
        f"{guide}?state=stranger",
    ]
    assert own.reward.value == 1 and own.readings[0].points[-1].accuracy.value == 1
    assert prior.reward.value < 1 and stranger.reward.value < 0.7
    spec = str(
        Spec(kind="policy", reference=tiny.model(), options={"guide": guide, "weight": "inf"})
    )
    grid = palate.evaluate(pairs, spec, root=tmp_path / "runs")
    assert grid.runs[0].summary.accuracy.value == 1
    with pytest.raises(UsageError, match="no earlier choices"):
        policy_accuracy(replace(pairs, history=()), tiny.model(), guide, root=None)
