"""A run that is killed and resumed ends with the same bytes: PPO, RLOO, GRPO, adapters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from ppo_runs import GOLD, World, looked_up, same_weights, small

from palate.learning import Lora
from palate.trainers.algorithms import last_checkpoint

pytest.importorskip("trl")

KINDS: dict[str, tuple[dict[str, Any], Lora | None]] = {
    "ppo": ({}, None),
    "ppo, β adapts, several steps": (
        {"kl_target": 0.5, "kl_horizon": 200, "epochs": 2, "minibatches": 2, "answers_at_once": 4},
        None,
    ),
    "ppo, adapters": ({}, Lora(rank=2)),
    "rloo": ({"algorithm": "rloo"}, None),
    "grpo": ({"algorithm": "grpo", "epochs": 2}, None),
}
UPDATES, EVERY, CUT = 6, 2, 5


class Stopped(Exception):
    """Ends a run while a reward is computed."""


def stopping(at: int, kill: bool = False) -> Any:
    """Return a reward function whose call number `at` ends the run."""
    calls, reward = [0], looked_up(GOLD)

    def stop(**told: Any) -> list[float | None]:
        calls[0] += 1
        if calls[0] == at:
            if kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise Stopped
        return reward(**told)

    return stop


def trained(folder: Path, output: str, told: dict[str, Any], lora: Any, **more: Any) -> Any:
    """Train, from the last checkpoint if there is one; the starting policy is always the same."""
    recipe = small(updates=UPDATES, save_every=EVERY, answers_per_prompt=None, **told)
    return World(folder).train(recipe, folder / output, lora=lora, **more)


def assert_same(whole: Any, resumed: Any, folder: Path) -> None:
    """Compare weights, the critic, β, the optimizer and the random numbers to come, to the bit."""
    assert same_weights(whole.model, resumed.model)
    if hasattr(whole, "value_head"):
        assert same_weights(whole.value_head, resumed.value_head)
        assert whole.kl_coefficient == resumed.kl_coefficient
    last = [last_checkpoint(folder / name) for name in ("whole", "cut")]
    assert last[0] is not None and last[1] is not None
    assert last[0].name == last[1].name
    for name in ("optimizer.pt", "scheduler.pt"):
        one, other = (json.dumps(tensors_of(path / name)) for path in last if path)
        assert one == other, name
    for name in ("value_head.safetensors", "ppo_state.json"):
        if (last[0] / name).exists():
            assert (last[0] / name).read_bytes() == (last[1] / name).read_bytes()


def tensors_of(path: Path) -> Any:
    return torch_to_json(torch.load(path, weights_only=True))


def torch_to_json(it: Any) -> Any:
    if isinstance(it, torch.Tensor):
        return it.tolist()
    if isinstance(it, dict):
        return {str(k): torch_to_json(v) for k, v in it.items()}
    return [torch_to_json(v) for v in it] if isinstance(it, list | tuple) else it


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_stopped_goes_on_to_the_same_bytes(kind: str, tmp_path: Path) -> None:
    told, lora = KINDS[kind]
    whole = trained(tmp_path, "whole", told, lora)
    start = World(tmp_path).load()[0]
    assert not same_weights(whole.model, start)
    with pytest.raises(Stopped):
        trained(tmp_path, "cut", told, lora, reward=stopping(CUT))
    torch.manual_seed(99)  # what was drawn since then says nothing
    there = last_checkpoint(tmp_path / "cut")
    assert there is not None
    state = json.loads((there / "trainer_state.json").read_text())
    steps = whole.state.global_step // UPDATES
    assert state["global_step"] == (CUT - 1) // EVERY * EVERY * steps
    assert_same(whole, trained(tmp_path, "cut", told, lora), tmp_path)


CODE = """
import sys
from pathlib import Path

sys.path[:0] = {path!r}
from test_trainers_ppo_killed import CUT, KINDS, stopping, trained

folder, kind = sys.argv[1:]
trained(Path(folder), "cut", *KINDS[kind], reward=stopping(CUT, kill=True))
"""


def test_a_killed_process_leaves_what_another_goes_on_from(tmp_path: Path) -> None:
    kind = "ppo, β adapts, several steps"
    whole = trained(tmp_path, "whole", *KINDS[kind])
    code = CODE.format(path=sys.path)
    command = [sys.executable, "-c", code, str(tmp_path), kind]
    done = subprocess.run(command, check=False, timeout=1800)
    assert done.returncode == -signal.SIGKILL, "it was to be killed before it was through"
    assert_same(whole, trained(tmp_path, "cut", *KINDS[kind]), tmp_path)
