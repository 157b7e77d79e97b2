import json
import sys
from collections.abc import Callable
from doctest import testmod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import planted_trials as trials
import planted_worlds as worlds
from planted_trials import WorldCheck, run_trial, world_checks
from planted_worlds import mirrored_world, unmirrored_world

import selfcheck as selfcheck_command
from palate import metrics
from palate.cli.declare import flattened
from palate.comparison import gain
from palate.errors import UsageError
from palate.evaluation import summarise
from palate.records import Slate, user_key
from palate.runs import Gain, ReportedEstimate, Run, Summary, Verdicts
from selfcheck import FEWER, planted_pairs, planted_scorers, route_checks, selfcheck

FEW = 24


def failed(checks: list[WorldCheck]) -> set[tuple[str, str, str]]:
    return {(check.kind, check.what, check.rows) for check in checks if not check.ok}


def redone(change: Callable[[Verdicts, Summary], dict[str, Any]]) -> Callable[..., Summary]:
    def broken(verdicts: Verdicts, **options: Any) -> Summary:
        found = summarise(verdicts, **options)
        return found.model_copy(update=change(verdicts, found))

    return broken


def halved(verdicts: Verdicts, found: Summary) -> dict[str, Any]:
    del verdicts
    return {"accuracy": narrow(found.accuracy)}


def narrow(figure: ReportedEstimate | Gain) -> Any:
    value, low, high = figure.value, figure.low, figure.high
    assert value is not None and low is not None and high is not None
    return figure.model_copy(update={"low": (value + low) / 2, "high": (value + high) / 2})


def bootstrapped_by_rows(verdicts: Verdicts, found: Summary) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    values = verdicts.values
    draws = values[rng.integers(len(values), size=(200, len(values)))].mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    update = {"low": float(low), "high": float(high)}
    return {"accuracy": found.accuracy.model_copy(update=update)}


def as_if_unmirrored(verdicts: Verdicts, found: Summary) -> dict[str, Any]:
    return {"accuracy": ReportedEstimate.of(metrics.accuracy(verdicts.values, verdicts.users))}


def as_if_independent(verdicts: Verdicts, found: Summary) -> dict[str, Any]:
    return {
        "accuracy": ReportedEstimate.of(metrics.accuracy(verdicts.values, np.arange(len(verdicts))))
    }


def by_user_alone(verdicts: Verdicts, found: Summary) -> dict[str, Any]:
    values, users = verdicts.values, verdicts.user_codes
    clusters = metrics.Clusters.of(users)
    if verdicts.mirrored:
        a, b = verdicts.couples.T
        values = verdicts.units().values(values)
        clusters = metrics.Clusters.of(users[a], users[b])
    return {"accuracy": ReportedEstimate.of(metrics.clustered_mean(values, clusters))}


def too_low(verdicts: Verdicts, found: Summary) -> dict[str, Any]:
    value = found.accuracy.value
    assert value is not None
    return {"accuracy": found.accuracy.model_copy(update={"value": 0.95 * value})}


def test_palate_holds_in_a_few_worlds() -> None:
    checks = selfcheck(FEW, seed=0)
    assert not failed(checks)
    assert {check.kind for check in checks} == {
        "point interval", "mean error", "coverage", "false alarms", "route",
    }  # fmt: skip


@pytest.fixture(scope="module")
def progress() -> list[tuple[int, int]]:
    """What `twenty` says of its progress."""
    return []


@pytest.fixture(scope="module")
def twenty(progress: list[tuple[int, int]]) -> list[WorldCheck]:
    return selfcheck(20, seed=1, progress=lambda done, total: progress.append((done, total)))


def test_progress_is_told(twenty: list[WorldCheck], progress: list[tuple[int, int]]) -> None:
    assert twenty
    assert progress == [(k + 1, 20) for k in range(20)]


def on_mirrors(worlds: int = 4) -> set[tuple[str, str, str]]:
    return failed(
        world_checks([run_trial(mirrored_world(0, k), 0, k) for k in range(worlds)], "mirrored")
    )


def test_too_few_worlds_are_refused() -> None:
    with pytest.raises(UsageError, match="too few"):
        selfcheck(19)


def test_intervals_shrunk_by_half_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def narrowed(run: Run, other: Run, base: Gain) -> Gain:
        found = narrow(gain(run, other, base))
        assert isinstance(found, Gain)
        return found

    monkeypatch.setattr(trials, "summarise", redone(halved))
    monkeypatch.setattr(trials, "gain", narrowed)
    found = failed(selfcheck(FEW))
    for rows in ("mirrored", "unmirrored"):
        assert ("coverage", "knows: accuracy", rows) in found
        assert ("coverage", "knows − hazy: gain", rows) in found
    assert {kind for kind, _, _ in found} == {"coverage"}


def test_a_biased_figure_and_a_gain_the_wrong_way_round_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trials, "summarise", redone(too_low))
    monkeypatch.setattr(trials, "gain", lambda run, other, base: gain(other, run, base))
    found = failed(selfcheck(FEW))
    for rows in ("mirrored", "unmirrored"):
        assert ("mean error", "knows: accuracy", rows) in found
        assert ("mean error", "knows − hazy: gain", rows) in found


@pytest.mark.parametrize("wrong", [bootstrapped_by_rows, as_if_unmirrored])
def test_a_spread_by_rows_or_users_on_mirrors_is_caught(
    wrong: Callable[[Verdicts, Summary], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "summarise", redone(wrong))
    found = on_mirrors()
    assert ("point interval", "blind: accuracy", "mirrored") in found
    assert ("point interval", "confident blind: accuracy", "mirrored") in found


def test_shift_without_the_scale_of_each_user_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unscaled(verdicts: Verdicts, **options: Any) -> Summary:
        return summarise(verdicts, **{**options, "scales": None})

    monkeypatch.setattr(trials, "summarise", unscaled)
    found = on_mirrors()
    assert found == {("point interval", "confident blind: concordance, scaled by user", "mirrored")}


def test_rows_taken_for_independent_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "summarise", redone(as_if_independent))
    monkeypatch.setattr(trials, "gain", lambda run, other, base: base)  # none is looked at here
    found = [run_trial(unmirrored_world(0, k), 0, k) for k in range(250)]
    assert ("coverage", "knows: accuracy", "unmirrored") in failed(
        world_checks(found, "unmirrored")
    )


def test_a_spread_by_user_alone_on_shared_questions_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trials, "summarise", redone(by_user_alone))
    couples = [
        run_trial(mirrored_world(0, k, couples=FEWER, shared=True), 0, k) for k in range(150)
    ]
    rows = [
        run_trial(unmirrored_world(0, k, rows=2 * FEWER, shared=True), 0, k) for k in range(150)
    ]
    found = failed(world_checks(couples, "mirrored shared"))
    found |= failed(world_checks(rows, "unmirrored shared"))
    for shared in ("mirrored shared", "unmirrored shared"):
        assert ("coverage", "knows: accuracy", shared) in found
    assert {kind for kind, _, _ in found} == {"coverage"}


def test_evaluate_gives_the_planted_verdicts() -> None:
    assert not failed(route_checks(3))


def test_only_personal_scorers_receive_a_user_and_only_a_key() -> None:
    world = mirrored_world(0, 0, couples=40)
    pairs, features = planted_pairs(world)
    scorers = planted_scorers(world, features)
    assert {name: one.info.needs_user for name, one in scorers.items()} == {
        "blind": False, "confident": True, "knows": True,
    }  # fmt: skip
    name = str(world.names[world.who[0]])
    slate = Slate(
        question=(), candidates=(pairs.pairs[0].chosen, pairs.pairs[0].rejected), user=name
    )
    with pytest.raises(KeyError):
        list(scorers["knows"].score([slate]))
    assert list(scorers["knows"].score([slate.replace(user=user_key(name))]))


def test_pairs_hold_the_world() -> None:
    worlds = [
        *(mirrored_world(1, 0, couples=40, shared=shared) for shared in (False, True)),
        *(unmirrored_world(1, 0, rows=80, shared=shared) for shared in (False, True)),
    ]
    for world in worlds:
        pairs, features = planted_pairs(world)
        asked = [pair.text for pair in pairs.pairs]
        assert len(set(asked)) == np.unique(world.questions).size
        for k, pair in enumerate(pairs.pairs):
            moved = features[pair.chosen] - features[pair.rejected]
            assert np.allclose(moved, world.sides[k] * world.differences[k])


def command() -> typer.Typer:
    app = typer.Typer()
    app.command("selfcheck")(flattened(selfcheck_command.check_self))
    return app


def of_checks(checks: list[WorldCheck], monkeypatch: pytest.MonkeyPatch) -> Result:
    """Return what the command prints of checks that another test made."""
    monkeypatch.setattr(selfcheck_command, "selfcheck", lambda *_, **__: checks)
    return CliRunner().invoke(command(), ["--worlds", "20"], env={"COLUMNS": "120"})


def test_command_prints_a_table(twenty: list[WorldCheck], monkeypatch: pytest.MonkeyPatch) -> None:
    printed = of_checks(twenty, monkeypatch)
    assert printed.exit_code == 0
    assert "planted truth: 20 worlds, seed 0" in printed.stdout
    assert "confident blind:" in printed.stdout


def test_command_prints_a_document_the_same_for_a_seed(twenty: list[WorldCheck]) -> None:
    asked = CliRunner().invoke(command(), ["--worlds", "20", "--seed", "1", "--format", "json"])
    document = json.loads(asked.stdout)
    assert (document["schema"], document["kind"]) == (4, "selfcheck")
    assert (document["worlds"], document["seed"]) == (20, 1)
    assert all(check["ok"] for check in document["checks"])
    assert document["checks"] == [{**check.model_dump(mode="json"), "ok": True} for check in twenty]


def test_command_fails_where_a_check_does(
    twenty: list[WorldCheck], monkeypatch: pytest.MonkeyPatch
) -> None:
    *right, last = twenty
    wrong = last.model_copy(update={"value": last.high + 1})
    printed = of_checks([*right, wrong], monkeypatch)
    assert printed.exit_code == 1
    assert "NO" in printed.stdout


@pytest.mark.parametrize("module", [worlds, trials, selfcheck_command])
def test_the_examples_hold(module: Any) -> None:
    result = testmod(module)
    assert result.attempted and not result.failed
