"""The callback between updates: the log, progress, and evaluation on held-out users."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import transformers

from palate.evaluation import Start
from palate.records import Progress
from palate.trainers.algorithms import PolicyTraining
from palate.trainers.held_out_users.answers import AnswerWriter
from palate.trainers.held_out_users.evaluating import HeldOut
from palate.trainers.log import TrainingLog
from palate.trainers.reward_function import TrainingReward

LEFT_OUT = ("epoch", "num_tokens", "step_time")
"""Of TRL's metrics, those that say nothing of the policy."""


class EvaluationCallback(transformers.TrainerCallback):
    """Evaluates on held-out users before the first update, after some, and after the last.

    TRL calls it between steps; what it draws and computes changes no number of the training.
    """

    def __init__(
        self,
        recipe: PolicyTraining,
        reward: TrainingReward,
        held_out: HeldOut,
        updates: Collection[int],
        log: TrainingLog,
        folder: Path,
        start: Start,
        set_scale: Callable[[AnswerWriter], None],
    ) -> None:
        self.recipe, self.reward, self.held_out, self.log = recipe, reward, held_out, log
        self.updates, self.folder, self.start = frozenset(updates), folder, start
        self.set_scale = set_scale
        """Called before training begins, or goes on from a checkpoint."""
        self.writer: AnswerWriter
        self.progress: Progress
        self._began = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Evaluate the untrained policy; or take out of the log what is done again."""
        update = self._update(state)
        self.log.cut_back(update if update else -1)
        self.set_scale(self.writer)
        if not update:
            self._evaluate(0)
        self.progress = self.start(f"updates by {self.recipe.algorithm}")
        self._began = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Evaluate the policy after the updates that were asked for."""
        if state.global_step % self.recipe.steps_per_update:
            return
        update = self._update(state)
        self.progress(update, self.recipe.updates)
        if update in self.updates:
            self._evaluate(update)

    def on_log(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Write what TRL says of an update."""
        logs = more.get("logs") or {}
        if "loss" not in logs:  # the summary at the end of training
            return
        counts = self.reward.counts
        answers = counts["answers"] or 1
        now = time.monotonic()
        values = {
            **{name: value for name, value in logs.items() if name not in LEFT_OUT},
            "missing_eos": counts["missing_eos"] / answers,
            "unscored": counts["unscored"] / answers,
            "seconds": round(now - self._began, 3),
        }
        counts.clear()
        self._began = now
        self.log.write(self._update(state), "train", values)

    def _update(self, state: Any) -> int:
        return int(state.global_step) // self.recipe.steps_per_update

    def _evaluate(self, update: int) -> None:
        began = time.monotonic()
        progress = self.start(f"held-out answers after {update} updates")
        answers = self.held_out.answers(self.writer, update, progress)
        answers.write(self.folder)
        self.log.write(update, "held_out", answers.means(self.reward.reward.scale))
        self._began += time.monotonic() - began  # `seconds` are those of training
