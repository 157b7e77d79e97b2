"""All responses of a model over few words, and what a law of the next word makes of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from palate.engines import LocalModel

Floats = npt.NDArray[np.float64]
Ids = tuple[int, ...]
Response = tuple[Ids, bool]
"""Its words without the end token, and whether it was cut off."""


class Tree:
    """Responses of at most `length` words: each ends at its first end token, or is cut off.

    A table has a row for every prefix that goes on, and a column for every word.
    """

    def __init__(self, words: Sequence[int], ends: Sequence[int], length: int) -> None:
        self.words, self.length = tuple(words), length
        self.ends = [self.words.index(end) for end in ends]
        inner = [word for word in words if word not in ends]
        self.prefixes: list[Ids] = [ids for n in range(length) for ids in product(inner, repeat=n)]
        self.longest: list[Ids] = list(product(inner, repeat=length))
        self.place: Mapping[Ids, int] = {ids: k for k, ids in enumerate(self.prefixes)}
        self.responses: list[Response] = [
            *((ids, False) for ids in self.prefixes), *((ids, True) for ids in self.longest),
        ]  # fmt: skip

    @cached_property
    def _cells(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        # Of all prefixes but the empty one, and then of the longest: the cell that leads there.
        every = [*self.prefixes[1:], *self.longest]
        rows = np.array([self.place[ids[:-1]] for ids in every])
        return rows, np.array([self.words.index(ids[-1]) for ids in every])

    def _folded(self, table: Floats, start: float, join: Callable[..., Floats]) -> Floats:
        rows, columns = self._cells
        made = np.full(len(self.responses), start)
        for k, (row, column) in enumerate(zip(rows, columns, strict=True), 1):
            made[k] = join(made[row], table[row, column])
        return made

    def law(self, log_probabilities: Floats) -> Floats:
        """Return the probability of every response under a law of the next word."""
        p = np.exp(log_probabilities)
        made = self._folded(p, 1.0, np.multiply)
        made[: len(p)] *= p[:, self.ends].sum(axis=1)
        return made

    def reach(self, log_probabilities: Floats) -> Floats:
        """Return the probability that a response goes through each prefix."""
        return self._folded(np.exp(log_probabilities), 1.0, np.multiply)[: len(self.prefixes)]

    def sums_before(self, table: Floats) -> Floats:
        """Return the sum over the words of each prefix."""
        return self._folded(table, 0.0, np.add)[: len(self.prefixes)]

    def sums(self, table: Floats) -> Floats:
        """Return each response's sum over its words and its end, of which there is one kind."""
        (end,) = self.ends
        made = self._folded(table, 0.0, np.add)
        made[: len(table)] += table[:, end]
        return made

    def backed_up(self, of_responses: Floats, mean: Callable[[int, Floats], float]) -> Floats:
        """Return each cell's value: that of its response, or `mean` of the row it leads to."""
        n = len(self.prefixes)
        table = np.empty((n, len(self.words)))
        table[:, self.ends] = of_responses[:n, None]
        rows, columns = self._cells
        table[rows[n - 1 :], columns[n - 1 :]] = of_responses[n:]
        for k in range(n - 1, 0, -1):
            table[rows[k - 1], columns[k - 1]] = mean(k, table[k])
        return table


def log_softmax(table: Floats) -> Floats:
    """Return rows less the logarithm of their summed exponentials; a row of −∞ alone stays."""
    with np.errstate(invalid="ignore"):
        made: Floats = table - logsumexp(table, axis=1, keepdims=True)
    return np.where(np.isneginf(table), -np.inf, made)


def plain_states(local: LocalModel, sequences: Sequence[Ids]) -> Floats:
    """Return the state at each sequence's last token, by plain forward passes."""
    return _last(local, sequences, lambda tokens: local.model.base_model(tokens).last_hidden_state)


def word_table(local: LocalModel, prompt: Ids, tree: Tree) -> Floats:
    """Return log p of every word after every prefix, by plain forward passes; others are out."""
    sequences = [(*prompt, *ids) for ids in tree.prefixes]
    logits = _last(local, sequences, lambda tokens: local.model(tokens).logits)
    return log_softmax(logits[:, list(tree.words)])


def _last(local: LocalModel, sequences: Sequence[Ids], run: Callable[..., object]) -> Floats:
    torch, made = local.torch, dict[int, Floats]()
    of_length: dict[int, list[int]] = defaultdict(list)
    for k, ids in enumerate(sequences):
        of_length[len(ids)].append(k)
    for places in of_length.values():
        with torch.inference_mode():
            tokens = torch.tensor([sequences[k] for k in places])
            outputs = run(tokens)[:, -1].double().numpy()  # type: ignore[index]
        made.update(zip(places, outputs, strict=True))
    return np.stack([made[k] for k in range(len(sequences))])
