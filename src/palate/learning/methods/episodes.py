"""Episodes: from some of a user's choices a network must predict the user's others.

Training by episodes (Vinyals et al., NeurIPS 2016) makes a network that adapts in one pass. The
number of choices it is shown is drawn anew each time, 0 included, so that few are enough later.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from palate.learning.personal.choices import Choices, Whole, side_by_side
from palate.learning.personal.folds import FOLDS, folds
from palate.learning.personal.protocol import Options
from palate.learning.solvers.layers import Parameters
from palate.models import import_torch

if TYPE_CHECKING:
    import torch
    from torch import Tensor

HELD_OUT, MOST_HELD_OUT, FEWEST_USERS = 0.2, 200, 10
"""Share of users kept for early stopping, at most how many, and below how many users none is."""
TARGETS = 64
"""Most choices that one episode asks for."""
SHOWN = (0.0, 0.1, 0.3, 1.0)
"""Shares of a held-out user's choices that are shown when training is checked."""
CHECK, PATIENCE = 50, 8
"""Steps between checks, and how many checks in a row may bring nothing."""
LARGEST_GRADIENT = 1.0
AVERAGED = 50
"""Steps over which parameters are averaged."""


class Padded(NamedTuple):
    """Some users' choices side by side, padded to the longest (at least 1)."""

    chosen: torch.Tensor
    """φ(chosen) (u × m × d); zeros where a user has fewer."""
    rejected: torch.Tensor
    """φ(rejected) (u × m × d)."""
    mask: torch.Tensor
    """True where there is a choice (u × m)."""


class Episode(NamedTuple):
    """Rows of one user's choices: what is shown, and what is to be predicted."""

    context: Whole
    targets: Whole


class Network(Protocol):
    """What is trained: a state from choices, and rewards under a state."""

    parts: Parameters

    @abstractmethod
    def encode(self, context: Padded) -> torch.Tensor:
        """Return the users' states (u × …)."""

    @abstractmethod
    def sample(self, context: Padded, noise: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states as training sees them, and a penalty per user (u)."""

    @abstractmethod
    def reward(self, state: torch.Tensor, responses: torch.Tensor) -> torch.Tensor:
        """Return rewards (u × c) of responses (u × c × d)."""


def pad(choices: Choices, rows: Sequence[Whole]) -> Padded:
    """Lay choices side by side, one sequence of rows per user."""
    torch = import_torch()
    index, mask = side_by_side(rows)
    chosen, rejected = (
        torch.from_numpy(choices.features[side[index]] * mask[..., None])
        if len(choices)
        else torch.zeros(*index.shape, choices.width)
        for side in (choices.chosen, choices.rejected)
    )
    return Padded(chosen, rejected, torch.from_numpy(mask))


def train(
    network: Network,
    choices: Choices,
    margins: NDArray[np.floating],
    options: Options,
    stream: np.random.Generator,
) -> None:
    """Fit `network.parts`: log-odds of a choice = its margin (n) + the difference of rewards.

    Adam, the rate falling to 0 by a cosine over `steps`. Of the parameters a moving average is
    taken (Polyak and Juditsky, 1992). Every 50 steps it predicts the choices of held-out users (of
    fewer than 10: of all) on held-out questions, and the average that did best is kept, or the
    parameters from before the first step.
    """
    torch = import_torch()
    questions = choices.question_of_choice
    rows, held_out = split_choices(choices, options, stream)
    if not rows or not held_out:
        return
    live = network.parts
    parts = [part.requires_grad_(True) for part in live.values()]
    adam = torch.optim.AdamW(parts, lr=options["rate"], weight_decay=options["decay"])
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, options["steps"])
    noise = torch.Generator().manual_seed(int(stream.integers(2**31)))
    mean, idle = _copy(live), 0
    least, best = _held_out_loss(network, choices, margins, held_out), _copy(live)
    for step in range(1, options["steps"] + 1):
        some = stream.choice(len(rows), min(options["batch"], len(rows)), replace=False)
        episodes = [draw_episode(rows[k], questions, options["most"], stream) for k in some]
        state, penalty = network.sample(pad(choices, [one.context for one in episodes]), noise)
        loss = (_losses(network, state, choices, margins, episodes) + penalty).mean()
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parts, LARGEST_GRADIENT)
        adam.step()
        falling.step()
        for name, part in live.items():
            mean[name].lerp_(part.detach(), 1 / AVERAGED)
        if step % CHECK == 0 or step == options["steps"]:
            network.parts = mean
            now = _held_out_loss(network, choices, margins, held_out)
            network.parts = live
            idle = idle + 1 if now >= least else 0
            if now < least:
                least, best = now, _copy(mean)
            if idle == PATIENCE:
                break
    network.parts = best


def _losses(
    network: Network,
    state: torch.Tensor,
    choices: Choices,
    margins: NDArray[np.floating],
    episodes: Sequence[Episode],
) -> torch.Tensor:
    """Return each user's mean −log P of the targets (u)."""
    torch = import_torch()
    index, _ = side_by_side([one.targets for one in episodes])
    targets = pad(choices, [one.targets for one in episodes])
    both = torch.cat([targets.chosen, targets.rejected], dim=1)
    won, lost = network.reward(state, both).chunk(2, dim=1)
    odds = torch.from_numpy(margins[index].astype(np.float32)) + won - lost
    each: Tensor = torch.nn.functional.softplus(-odds) * targets.mask
    return each.sum(dim=1) / targets.mask.sum(dim=1)


def _held_out_loss(
    network: Network,
    choices: Choices,
    margins: NDArray[np.floating],
    held_out: Sequence[Sequence[Episode]],
) -> float:
    total, torch = 0.0, import_torch()
    with torch.no_grad():
        for episodes in held_out:
            state = network.encode(pad(choices, [one.context for one in episodes]))
            total += float(_losses(network, state, choices, margins, episodes).sum())
    return total


def _copy(parts: Parameters) -> Parameters:
    return {name: part.detach().clone() for name, part in parts.items()}


def draw_episode(rows: Whole, asked: Whole, most: int, stream: np.random.Generator) -> Episode:
    """Show some choices and ask for choices on questions that none of them answers."""
    n_read = int(stream.integers(min(len(rows), most + 1)))
    rows = _by_question(rows, asked, stream)
    _, starts = np.unique(asked[rows], return_index=True)
    starts = np.sort(starts)
    # The first questions that hold enough to show; the last is asked for where one question is not
    # all there is.
    cut = int(np.append(starts[1:], len(rows))[np.searchsorted(starts[1:], n_read)])
    cut = int(starts[-1]) if cut == len(rows) and len(starts) > 1 else cut
    if n_read == 0 or len(starts) == 1:
        order = stream.permutation(rows)
        return Episode(order[:n_read], order[n_read : n_read + TARGETS])
    return Episode(
        stream.permutation(rows[:cut])[:n_read], stream.permutation(rows[cut:])[:TARGETS]
    )


def _by_question(rows: Whole, asked: Whole, stream: np.random.Generator) -> Whole:
    """Return the rows, those of a question together, questions in random order."""
    _, code = np.unique(asked[rows], return_inverse=True)
    return rows[np.argsort(stream.permutation(int(code.max()) + 1)[code], kind="stable")]


def split_choices(
    choices: Choices, options: Options, stream: np.random.Generator
) -> tuple[list[Whole], list[list[Episode]]]:
    """Return the rows of each training user, and batches of held-out episodes.

    Training knows neither the held-out users nor the held-out questions. Held-out users' choices on
    the other questions are shown; where there are fewer than 10 users, all are held out and the
    same ones train.
    """
    out = folds(choices, FOLDS, stream) == 0
    rows = [stream.permutation(own) for own in choices.rows_by_user() if len(own)]
    rows = [rows[k] for k in stream.permutation(len(rows))]
    known = [own[~out[own]] for own in rows]
    few = len(rows) < FEWEST_USERS
    n = len(rows) if few else min(MOST_HELD_OUT, int(np.ceil(HELD_OUT * len(rows))))
    most = options["most"]
    episodes = [
        Episode(shown[: int(np.ceil(share * len(shown)))][:most], own[out[own]][:TARGETS])
        for share in SHOWN
        for own, shown in zip(rows[:n], known[:n], strict=True)
        if out[own].any()
    ]
    kept = [own for own in (known if few else known[n:]) if len(own)]
    size = options["batch"]
    return kept, [episodes[k : k + size] for k in range(0, len(episodes), size)]
