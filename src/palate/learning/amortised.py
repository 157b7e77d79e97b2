"""The base of VPL and GPO: a global head, and a network that reads a user's choices in one pass.

score = w·φ + r(φ; state). w is the Bradley–Terry head of all users, and the network learns what it
leaves over. r is 0 before the first step, and that network is kept where no other predicts
held-out users better: a world without personal differences costs nothing.

It is trained by episodes (Vinyals et al., NeurIPS 2016): from some of a user's choices it must
predict the user's others. The number that it is shown is drawn anew each time, 0 included, so that
few are enough later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from palate.errors import DataError
from palate.learning.choices import (
    FOLDS,
    Choices,
    Doubles,
    Floats,
    Reals,
    Whole,
    batches,
    folds,
    side_by_side,
)
from palate.learning.heads import choose_ridge, fit_head
from palate.learning.personal import Model, Options, read_options
from palate.learning.solvers import one_blas_thread
from palate.learning.states import States, repeated
from palate.models import import_torch
from palate.seeding import rng

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Arrays = dict[str, NDArray[np.float32]]
Parameters = dict[str, "Tensor"]
EPISODES = {"batch": 32, "rate": 0.002, "decay": 0.01, "most": 256, "ridge": None}
"""Defaults of both methods."""
NUMBERS = 2**24
"""Float32 numbers held at a time (64 MiB)."""
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

    chosen: Tensor
    """φ(chosen) (u × m × d); zeros where a user has fewer."""
    rejected: Tensor
    """φ(rejected) (u × m × d)."""
    mask: Tensor
    """True where there is a choice (u × m)."""


class Episode(NamedTuple):
    """Rows of one user's choices: what is shown, and what is to be predicted."""

    context: Whole
    targets: Whole


class Amortised(Model, ABC):
    """A family of user states that an encoder computes; nothing is fitted to a new user."""

    state: ClassVar[str]
    """The name of the state's one array."""
    log_odds: ClassVar[bool] = True
    needs_prompts: ClassVar[bool] = False
    exact: ClassVar[bool] = False

    def __init__(self, head: Doubles, size: float, parts: Parameters, options: Options) -> None:
        self.head, self.size, self.parts, self.options = head, size, parts, options

    @classmethod
    @abstractmethod
    def arrays(cls, width: int, options: Options, stream: np.random.Generator) -> Arrays:
        """Return the network's first parameters, under which every reward is 0."""

    @abstractmethod
    def encode(self, context: Padded) -> Tensor:
        """Return the users' states (u × …)."""

    @abstractmethod
    def sample(self, context: Padded, noise: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return states as training sees them, and a penalty per user (u)."""

    @abstractmethod
    def reward(self, state: Tensor, responses: Tensor) -> Tensor:
        """Return rewards (u × c) of responses (u × c × d)."""

    @classmethod
    def fit(cls, choices: Choices, *, seed: int = 0, **options: Any) -> Self:
        """Fit w, then the network on what w leaves over, by episodes.

        In training a choice's margin is that of a head that has not seen its question, so that the
        network learns from the same leftovers that it will meet later. Raises `DataError` without
        a choice.
        """
        torch, settings = import_torch(), read_options(cls, options)
        if not len(choices):
            raise DataError("no choice to learn from")
        with one_blas_thread(choices.differences.size):
            ridge = settings["ridge"] or choose_ridge(choices, seed)
            head, stream = fit_head(choices, ridge), rng(cls.method, seed)
            arrays = cls.arrays(choices.width, settings, stream)
            margins = _margins(choices, ridge, stream)
        parts = {name: torch.from_numpy(array) for name, array in arrays.items()}
        size = float(np.sqrt(np.mean(choices.differences.astype(np.float64) ** 2))) or 1.0
        model = cls(head, size, parts, {**settings, "ridge": ridge})
        train_network(model, choices, margins, stream)
        return model

    def prior(self) -> States:
        """Return what the encoder makes of no choice."""
        nothing = Choices(
            np.zeros((1, len(self.head)), np.float32), *(np.zeros(0, np.int64),) * 3, users=1
        )
        return {self.state: self._encoded(nothing, nothing.rows_by_user())}

    def adapt(self, choices: Choices) -> States:
        """Return a state per user, by one pass; of more than `most` choices the last ones count."""
        rows = [listed[-self.options["most"] :] for listed in choices.rows_by_user()]
        counts = np.array([len(listed) for listed in rows], np.int64)
        states = repeated(self.prior(), choices.users)
        # A choice takes its vectors, some hidden layers and its attention to every other.
        size = 2 * choices.width + 16 * self.options["hidden"] + 8 * int(counts.max(initial=0))
        for users in batches(counts, size, NUMBERS):
            states[self.state][users] = self._encoded(choices, [rows[user] for user in users])
        return states

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return w·φ + r(φ; state)."""
        torch = import_torch()
        scores = np.asarray(candidates.astype(np.float64) @ self.head)
        size = candidates[:1].size + candidates.shape[1] * 8 * self.options["hidden"]
        step = max(1, NUMBERS // (size + 4 * states[self.state][:1].size + 1))
        with torch.inference_mode():
            for first in range(0, len(candidates), step):
                some = slice(first, first + step)
                state, shown = (
                    torch.from_numpy(np.ascontiguousarray(array[some], np.float32))
                    for array in (states[self.state], candidates)
                )
                scores[some] += self.reward(state, shown).numpy()
        return scores

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the head, the size of a difference, and the network's parameters."""
        network = {f"network.{name}": part.numpy() for name, part in self.parts.items()}
        return {"head": self.head, "size": np.array([self.size]), **network}

    @classmethod
    def load(cls, tensors: Mapping[str, NDArray[Any]], options: Options) -> Self:
        """Return the model of what `tensors` gave."""
        torch = import_torch()
        parts = {
            name.removeprefix("network."): torch.from_numpy(np.array(array, np.float32))
            for name, array in tensors.items()
            if name.startswith("network.")
        }
        return cls(tensors["head"].astype(np.float64), float(tensors["size"][0]), parts, options)

    def pairs(self, context: Padded) -> tuple[Tensor, Tensor]:
        """Return difference and middle of each pair, in units of a usual difference.

        They say as much as the two vectors do: a reward that bends needs the middle as well.
        """
        apart = (context.chosen - context.rejected) / self.size
        return apart, (context.chosen + context.rejected) / (2 * self.size)

    def _encoded(self, choices: Choices, rows: list[Whole]) -> Floats:
        with import_torch().inference_mode():
            states: Floats = self.encode(pad(choices, rows)).numpy()
        return states


def _margins(choices: Choices, ridge: float, stream: np.random.Generator) -> Doubles:
    """Return w·D (n), each under a head fitted without the choice's question."""
    fold = folds(choices, FOLDS, stream)
    margins = np.zeros(len(choices))
    for k in np.unique(fold):
        head = fit_head(choices.take(fold != k), ridge)
        margins[fold == k] = choices.differences[fold == k] @ head
    return margins


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


def train_network(
    network: Amortised, choices: Choices, margins: Reals, stream: np.random.Generator
) -> None:
    """Fit `network.parts`: log-odds of a choice = its margin (n) + the difference of rewards.

    Adam, the rate falling to 0 by a cosine over `steps`. Of the parameters a moving average is
    taken (Polyak and Juditsky, 1992). Every 50 steps it predicts the choices of held-out users (of
    fewer than 10: of all) on held-out questions, and the average that did best is kept, or the
    parameters from before the first step.
    """
    torch = import_torch()
    questions, options = choices.question_of_choice, network.options
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
        state, penalty = network.sample(
            pad(choices, [episode.context for episode in episodes]), noise
        )
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
    network: Amortised, state: Tensor, choices: Choices, margins: Reals, episodes: Sequence[Episode]
) -> Tensor:
    """Return each user's mean −log P of the targets (u)."""
    torch = import_torch()
    index, _ = side_by_side([episode.targets for episode in episodes])
    targets = pad(choices, [episode.targets for episode in episodes])
    both = torch.cat([targets.chosen, targets.rejected], dim=1)
    won, lost = network.reward(state, both).chunk(2, dim=1)
    odds = torch.from_numpy(margins[index].astype(np.float32)) + won - lost
    lost_nats: Tensor = torch.nn.functional.softplus(-odds) * targets.mask
    return lost_nats.sum(dim=1) / targets.mask.sum(dim=1)


def _held_out_loss(
    network: Amortised, choices: Choices, margins: Reals, held_out: Sequence[Sequence[Episode]]
) -> float:
    total, torch = 0.0, import_torch()
    with torch.no_grad():
        for episodes in held_out:
            state = network.encode(pad(choices, [episode.context for episode in episodes]))
            total += float(_losses(network, state, choices, margins, episodes).sum())
    return total


def _copy(parts: Parameters) -> Parameters:
    return {name: part.detach().clone() for name, part in parts.items()}


def draw_episode(rows: Whole, questions: Whole, most: int, stream: np.random.Generator) -> Episode:
    """Show some choices and ask for choices on questions that none of them answers."""
    n_read = int(stream.integers(min(len(rows), most + 1)))
    _, code = np.unique(questions[rows], return_inverse=True)
    # Those of a question together, questions in random order.
    rows = rows[np.argsort(stream.permutation(int(code.max()) + 1)[code], kind="stable")]
    _, starts = np.unique(questions[rows], return_index=True)
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


def split_choices(
    choices: Choices, options: Options, stream: np.random.Generator
) -> tuple[list[Whole], list[list[Episode]]]:
    """Return the rows of each training user, and batches of held-out episodes.

    Training knows neither the held-out users nor the held-out questions. Held-out users' choices on
    the other questions are shown; where there are fewer than 10 users, all are held out and the
    same ones train.
    """
    out = folds(choices, FOLDS, stream) == 0
    rows = [stream.permutation(listed) for listed in choices.rows_by_user() if len(listed)]
    rows = [rows[k] for k in stream.permutation(len(rows))]
    known = [listed[~out[listed]] for listed in rows]
    few = len(rows) < FEWEST_USERS
    n = len(rows) if few else min(MOST_HELD_OUT, int(np.ceil(HELD_OUT * len(rows))))
    most = options["most"]
    episodes = [
        Episode(shown[: int(np.ceil(share * len(shown)))][:most], listed[out[listed]][:TARGETS])
        for share in SHOWN
        for listed, shown in zip(rows[:n], known[:n], strict=True)
        if out[listed].any()
    ]
    trained = [listed for listed in (known if few else known[n:]) if len(listed)]
    size = options["batch"]
    return trained, [episodes[k : k + size] for k in range(0, len(episodes), size)]
