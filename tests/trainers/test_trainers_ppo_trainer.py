"""PPO on TRL's trainer: what it reads of the policy, what it learns, what it refuses."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from ppo_runs import GOLD, USERS, World, looked_up, same_weights, small

from palate.errors import ModelError, UsageError
from palate.learning import Lora
from palate.trainers.algorithms import (
    ALGORITHMS,
    Algorithm,
    PolicyTraining,
    build_trainer,
    last_checkpoint,
)

pytest.importorskip("trl")

from palate.trainers.ppo_trainer import PPOConfig
from palate.trainers.trl_hooks import (
    Rollout,
    ValueHead,
    fused_head,
    head_reads_answers_alone,
    refuse_untested,
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def built(
    world: World, recipe: PolicyTraining, output: Path, reward: Any = None, **more: Any
) -> Any:
    model, tokenizer = world.load()
    rows = [{"prompt": text, "user": text.split()[0]} for text in ("ann", "ben please hot")]
    return build_trainer(recipe, model, tokenizer, rows, reward or looked_up(GOLD), output, **more)


def plain(model: Any, batch: Any, head: ValueHead) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log-probabilities and values by one row at a time, without padding or TRL's head."""
    log_probs = torch.zeros(batch["completion_ids"].shape)
    values = torch.zeros(batch["completion_ids"].shape)
    for row, mask in enumerate(batch["completion_mask"]):
        prompt = batch["prompt_ids"][row][batch["prompt_mask"][row] == 1]
        answer = batch["completion_ids"][row][mask == 1]
        ids = torch.cat([prompt, answer])[None]
        with torch.no_grad():
            output = model(input_ids=ids, output_hidden_states=True)
            before = slice(len(prompt) - 1, -1)
            each = output.logits[0, before].log_softmax(-1)
            log_probs[row, : len(answer)] = each.gather(1, answer[:, None])[:, 0]
            hidden = output.hidden_states[-1][0, before]
            values[row, : len(answer)] = hidden @ head.linear.weight[0] + head.linear.bias[0]
    return log_probs, values


@pytest.mark.parametrize("epochs", [1, 2], ids=["aligned", "several steps"])
@pytest.mark.parametrize("lora", [None, Lora(rank=2)], ids=["all weights", "adapters"])
def test_what_a_rollout_holds_is_what_plain_forward_passes_say(
    world: World, tmp_path: Path, epochs: int, lora: Lora | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = built(world, small(epochs=epochs, answers_at_once=8), tmp_path, lora=lora)
    torch.manual_seed(1)
    with torch.no_grad():
        for weights in trainer.value_head.parameters():
            weights.normal_()
        for name, weights in trainer.model.named_parameters():
            if "lora_B" in name or (lora is None and "q_proj" in name):
                weights.normal_(std=0.3)  # away from the reference
    rollouts: list[Rollout] = []
    compute = trainer.compute_advantages
    monkeypatch.setattr(
        trainer, "compute_advantages", lambda it: (rollouts.append(it), compute(it))[1]
    )
    rows = [dict(row) for row in trainer.train_dataset][:16]
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows)
    (rollout,) = rollouts
    expected, values = plain(trainer.model, batch, trainer.value_head)
    reference, _ = plain(world.load()[0], batch, trainer.value_head)
    there = batch["completion_mask"] == 1
    assert {int(n) for n in batch["prompt_mask"].sum(dim=1)} == {1, 3}
    torch.testing.assert_close(rollout.log_probs[there], expected[there], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(batch["values"][there], values[there], atol=1e-4, rtol=1e-4)
    assert rollout.reference_log_probs is not None
    away = rollout.reference_log_probs[there]
    torch.testing.assert_close(away, reference[there], atol=1e-5, rtol=1e-4)
    assert (away - expected[there]).abs().max() > 0.05
    assert not batch["values"].requires_grad
    assert batch["num_items_in_batch"] == there.sum()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_head_reads_answers_alone_and_learns_the_same(
    world: World, tmp_path: Path, algorithm: Algorithm, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[int] = []
    head = fused_head._ChunkedLogProbFunction

    class Counted(head):  # type: ignore[misc, valid-type]
        @classmethod
        def apply(cls, hidden: torch.Tensor, *more: Any) -> Any:
            heads.append(len(hidden))
            return head.apply(hidden, *more)

    monkeypatch.setattr(fused_head, "_ChunkedLogProbFunction", Counted)
    before = fused_head._use_triton
    recipe = small(algorithm=algorithm, updates=2, epochs=2)
    models, counts = [], []
    for name, reading in (("all", nullcontext()), ("alone", head_reads_answers_alone())):
        heads.clear()
        trainer = built(world, recipe, tmp_path / name)
        with reading:
            trainer.train()
        models.append(trainer.model)
        counts.append(sum(heads))
    assert fused_head._use_triton is before
    assert counts[1] < counts[0] * 0.8
    for first, second in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(first, second, atol=2e-5, rtol=1e-4)


def test_a_short_run_comes_nearer_to_the_best_policy(world: World, tmp_path: Path) -> None:
    trainer = world.train(small(updates=25, answers=32, answers_at_once=32), tmp_path)
    assert world.share(trainer.model) > 0.4
    first, last = (trainer.state.log_history[k] for k in (0, 24))
    assert last["reward"] > first["reward"] + 0.5
    assert first["kl"] == pytest.approx(0, abs=1e-5)
    assert last["kl"] > 0.1 and "frac_reward_zero_std" not in last


def test_answers_without_a_reward_move_nothing(world: World, tmp_path: Path) -> None:
    def nothing(completions: list[Any], **more: Any) -> list[None]:
        return [None] * len(completions)

    trainer = world.train(small(updates=2, minibatches=2, answers_at_once=8), tmp_path / "a",
                          reward=nothing)  # fmt: skip
    assert same_weights(trainer.model, world.load()[0])
    assert same_weights(trainer.value_head, ValueHead(32))
    assert trainer.state.log_history[0]["unscored"] == 1


def test_one_user_without_rewards_is_learned_nothing_of(world: World, tmp_path: Path) -> None:
    def only_ann(user: list[str], **more: Any) -> list[float | None]:
        every = looked_up(GOLD)(user=user, **more)
        return [r if u == "ann" else None for u, r in zip(user, every, strict=True)]

    trainer = built(world, small(), tmp_path, only_ann)
    trainer.model.train()
    batch = trainer._generate_and_score_completions(
        [dict(row) for row in trainer.train_dataset][:16]
    )
    ann = torch.tensor([ids[-1] == USERS.index("ann") + 1 for ids in batch["prompt_ids"]])
    assert 0 < ann.sum() < 16
    for name in ("advantages", "returns", "tool_mask"):
        assert not batch[name][~ann].any()
        assert batch[name][ann].any()
    there = batch["tool_mask"] == 1
    assert batch["advantages"][there].mean() == pytest.approx(0, abs=1e-6)
    assert batch["advantages"][there].std() == pytest.approx(1, abs=1e-4)
    assert batch["num_items_in_batch"] == there.sum()


def test_the_critic_is_in_the_optimizer_and_its_gradients_end_with_the_step(
    world: World, tmp_path: Path
) -> None:
    trainer = world.train(small(updates=2), tmp_path)
    *_, critic = trainer.optimizer.param_groups
    assert [id(it) for it in critic["params"]] == [id(it) for it in trainer.value_head.parameters()]
    assert critic["weight_decay"] == 0 and critic["initial_lr"] == 1e-2
    assert critic["lr"] == pytest.approx(0)  # it follows the schedule
    assert all(it.grad is None for it in trainer.value_head.parameters())
    assert not same_weights(trainer.value_head, ValueHead(32))


def test_the_value_loss_moves_the_critic_alone(world: World) -> None:
    model, _ = world.load()
    head = ValueHead(32)
    with head.reading(model) as passes:
        model(input_ids=torch.tensor([[1, 3, 5]]))
    (values,) = passes
    assert values.shape == (1, 3)
    (values - 1).square().sum().backward()
    assert head.linear.weight.grad is not None and head.linear.weight.grad.any()
    assert all(it.grad is None for it in model.parameters())
    model(input_ids=torch.tensor([[1, 3, 5]]))
    assert len(passes) == 1, "the hook is gone"


def test_an_untested_trl_is_refused_in_one_line(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import trl

    for version in ("1.16.0", "1.16.4"):
        refuse_untested(version)
    for version in ("1.15.9", "1.17.0", "1.160.0", "2.0"):
        with pytest.raises(UsageError, match=rf"^TRL {version} is here; .* 'trl==1\.16\.\*'$"):
            refuse_untested(version)
    monkeypatch.setattr(trl, "__version__", "1.17.0")
    with pytest.raises(UsageError, match=r"1\.17\.0"):
        built(world, small(), tmp_path)
    built(world, small(algorithm="rloo"), tmp_path)  # it uses nothing private


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"algorithm": "sac"}, "algorithm=sac: expected ppo, rloo or grpo"),
        ({"algorithm": "grpo", "answers_per_prompt": 1}, "only ppo learns from 1"),
        ({"answers_per_prompt": 5}, "a divisor of 16"),
        ({"minibatches": 3}, "a divisor of the 1 passes over 16 answers"),
        ({"clip_range": 0.0}, "clip_range"),
        ({"kl_target": 1.0, "algorithm": "rloo"}, "kl_target"),
        ({"save_every": 0}, "save_every"),
        ({"gae_lambda": 1.5}, "gae_lambda=1.5: expected 0 to 1"),
        ({"kl_target": 2.0, "kl_coefficient": 0.0}, "beside a kl_coefficient above 0"),
    ],
)
def test_impossible_recipes_are_refused(told: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        small(**told)


def test_one_answer_an_update_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="1 answer an update"):
        PPOConfig(str(tmp_path), use_cpu=True, bf16=False, per_device_train_batch_size=1)


@pytest.mark.parametrize("sizes", [(1, 3), (3, 1), (8, 2)])
def test_one_answer_a_prompt_is_allowed(tmp_path: Path, sizes: tuple[int, int]) -> None:
    at_once, steps = sizes
    config = PPOConfig(
        str(tmp_path), use_cpu=True, bf16=False, per_device_train_batch_size=at_once,
        steps_per_generation=steps,
    )  # fmt: skip
    assert (config.num_generations, config.num_generations_eval) == (1, 1)
    assert config.generation_batch_size == at_once * steps


def test_the_kl_coefficient_follows_the_kl(world: World, tmp_path: Path) -> None:
    recipe = small(updates=4, kl_target=50.0, kl_horizon=100)
    trainer = world.train(recipe, tmp_path)
    logged = [log["kl_coefficient"] for log in trainer.state.log_history if "kl" in log]
    # The KL is far below its target, so each update of 16 answers lowers β by 0.2 · 16 / 100.
    assert logged == pytest.approx([0.2 * 0.968**k for k in range(4)])
    assert trainer.kl_coefficient == pytest.approx(0.2 * 0.968**4)


def test_only_whole_checkpoints_are_resumed_from(tmp_path: Path) -> None:
    for step, state in ((2, "{}"), (10, "{}"), (12, '{"global_st')):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
    (tmp_path / "checkpoint-14").mkdir()
    (tmp_path / "checkpoint-x").mkdir()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"


def test_a_checkpoint_of_another_algorithm_is_refused(world: World, tmp_path: Path) -> None:
    world.train(small(algorithm="rloo", updates=2, save_every=1), tmp_path)
    with pytest.raises(ModelError, match="no critic of this policy; resume from a checkpoint"):
        world.train(small(updates=3, save_every=1), tmp_path)


def test_numbers_are_finite(world: World, tmp_path: Path) -> None:
    trainer = world.train(small(updates=2, epochs=2, minibatches=2, answers_at_once=4), tmp_path)
    first, *_ = trainer.state.log_history
    for name in ("policy_loss", "value_loss", "clip_ratio", "entropy", "kl", "reward"):
        assert math.isfinite(first[name]), name
    assert trainer.state.global_step == 8
