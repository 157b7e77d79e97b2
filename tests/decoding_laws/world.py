"""Models that guide each other, what they read, and their tables by plain forward passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from decoding_laws.enumeration import Floats, Ids, Response, Tree, plain_states, word_table
from decoding_laws.words import END, WORDS, WordModel
from palate.engines.local_model import LocalModel
from palate.guidance import (
    CandidateRows,
    Candidates,
    FusedRows,
    Fusion,
    GuidedRow,
    Reading,
    Writing,
    write,
)
from palate.guidance.stepwise import Stepper
from palate.models import import_torch
from palate.records import Slate

if TYPE_CHECKING:
    from torch import Tensor

LENGTH = 4
LEAST_SPREAD = 2.0
"""Standard deviation of the logits after a prefix: nearly uniform models tell no laws apart."""
LIKELIEST = 0.2
"""Most that a policy may give to its likeliest response."""
NAMES = "policy", "guide", "reference", "rater"
PROMPTS: dict[str, Ids] = {
    "policy": (1, 2, 5),
    "guide": (4, 4, 1, 2),
    "reference": (2,),
    "rater": (6, 1, 0),
    "attribute 1": (4, 1),
    "attribute 2": (7, 7, 2),
    "no attribute": (5,),
}
CLOSING = (END, 1)
"""A closed conversation holds a word more than the policy's end."""
SLATE = Slate(question=(), candidates=("", " "))


@dataclass
class Terms:
    """A token guide of these models, each behind a prompt."""

    coefficients: tuple[float, ...]
    models: tuple[LocalModel, ...]
    prompts: tuple[Ids, ...] = ()
    readers: tuple[Any, ...] = ()

    def read(self, slate: Slate, room: int) -> Reading:
        del room
        return Reading(slate, self.prompts)

    def in_place(self) -> nullcontext[None]:
        return nullcontext()


class PrefixTable:
    """A prefix guide that knows every prefix by its model's state there, and looks up its value."""

    closing: Sequence[int] = CLOSING
    readers: tuple[Any, ...] = ()

    def __init__(self, world: WordWorld, values: Floats) -> None:
        torch = import_torch()
        self.world, self.models = world, (world.model("rater"),)
        self._states = torch.from_numpy(world.states.reshape(-1, world.states.shape[-1]))
        self._values = torch.from_numpy(values.reshape(-1))

    def read(self, slate: Slate, room: int) -> Reading:
        del room
        return Reading(slate, (PROMPTS["rater"],))

    def in_place(self) -> nullcontext[None]:
        return nullcontext()

    def read_position(self, ids: Sequence[int]) -> int:
        return len(ids) - 1

    def rewards(self, outputs: Tensor, slates: Sequence[Slate]) -> Tensor:
        """Return the value of the prefix whose state is nearest; NaN where none is near."""
        del slates
        torch = import_torch()
        apart = torch.cdist(outputs.double().flatten(0, 1), self._states)
        least, nearest = apart.min(dim=-1)
        values = self._values[nearest].masked_fill(least > NEAR, torch.nan)
        rewards: Tensor = values.float().unflatten(0, outputs.shape[:2])
        return rewards


NEAR = 1e-3


class WordWorld:
    """A policy, its guides, and all that can be known of them."""

    def __init__(self, seed: int, ends: Sequence[int] = (END,)) -> None:
        self.seed, self.ends = seed, ends
        self.tree = Tree(WORDS, ends, LENGTH)
        self._models: dict[str, WordModel] = {}

    def model(self, name: str) -> WordModel:
        """Return a model, made once: the first whose logits are spread out, and a policy's law."""
        drawn = count(100 * (len(NAMES) * self.seed + NAMES.index(name)))
        while name not in self._models:
            made = WordModel(next(drawn), self.ends)
            table = word_table(made, PROMPTS[name], self.tree)
            likeliest = self.tree.law(table).max() if name == "policy" else 0
            if spread(table) >= LEAST_SPREAD and likeliest <= LIKELIEST:
                self._models[name] = made
        return self._models[name]

    @property
    def policy(self) -> WordModel:
        return self.model("policy")

    def table(self, name: str, prompt: str | None = None) -> Floats:
        """Return log p of every word after every prefix."""
        return word_table(self.model(name), PROMPTS[prompt or name], self.tree)

    @cached_property
    def p(self) -> Floats:
        return self.table("policy")

    @cached_property
    def base(self) -> Floats:
        return self.tree.law(self.p)

    @cached_property
    def states(self) -> Floats:
        """Return the rater's state at every cell: after a word, or after the closing."""
        words = self.tree.words
        sequences = [
            (*PROMPTS["rater"], *ids, *(CLOSING if word in self.ends else (word,)))
            for ids in self.tree.prefixes
            for word in words
        ]
        made = plain_states(self.model("rater"), sequences)
        return made.reshape(len(self.tree.prefixes), len(words), -1)

    def guide(self, name: str) -> tuple[Terms, Floats]:
        """Return a token guide and its reward of every cell."""
        terms = {
            "q": [(1.0, "guide", "guide")],
            "q − reference": [(1.0, "guide", "guide"), (-1.0, "reference", "reference")],
            "attributes": [
                (0.9, "guide", "attribute 1"),
                (0.6, "guide", "attribute 2"),
                (-1.5, "guide", "no attribute"),
            ],
            "q − policy": [(1.0, "guide", "guide"), (-1.0, "policy", "policy")],
        }[name]
        reward = sum(
            (c * self.table(model, prompt) for c, model, prompt in terms), np.zeros(self.p.shape)
        )
        made = Terms(
            tuple(c for c, _, _ in terms),
            tuple(self.model(model) for _, model, _ in terms),
            tuple(PROMPTS[prompt] for _, _, prompt in terms),
        )
        return made, reward

    def rows(self, reading: Reading, n: int) -> list[GuidedRow]:
        return [GuidedRow(PROMPTS["policy"], reading, k) for k in range(n)]

    def fused(self, law: Fusion, guide: Terms, n: int) -> tuple[Stepper, list[GuidedRow]]:
        rows = self.rows(guide.read(SLATE, LENGTH), n)
        return FusedRows(law, self.policy, guide, rows, LENGTH), rows

    def candidates(
        self, law: Candidates, guide: PrefixTable, n: int
    ) -> tuple[Stepper, list[GuidedRow]]:
        rows = self.rows(guide.read(SLATE, LENGTH), n)
        return CandidateRows(law, self.policy, guide, rows, LENGTH), rows

    def write(
        self, made: tuple[Stepper, list[GuidedRow]], temperature: float = 1.0, top_p: float = 1.0
    ) -> tuple[list[Response], list[float]]:
        """Return the responses written, and the divergence of each."""
        how = Writing(LENGTH, temperature, top_p, self.seed)
        written = write(made[0], self.policy, made[1], how)
        return [(tuple(it.ids), it.cut_off) for it in written], [it.divergence for it in written]


def spread(table: Floats) -> float:
    """Return the mean standard deviation of the logits after a prefix."""
    return float(table.std(axis=1).mean())


def engine_table(
    tree: Tree, stepper: Stepper, leaves: Sequence[Ids], temperature: float = 1.0
) -> Floats:
    """Return log π of every cell as the engine makes it, its rows led down all prefixes."""
    torch = import_torch()
    table = np.full((len(tree.prefixes), len(tree.words)), -np.inf)
    alive = np.ones(len(leaves), dtype=np.bool_)
    for step in range(tree.length):
        law = stepper.step()
        logp = torch.log_softmax(law.logits.double() / temperature, dim=-1)
        if law.tokens is not None:
            empty = torch.full((len(leaves), int(max(tree.words)) + 3), -torch.inf).double()
            logp = empty.scatter(-1, law.tokens, logp)
        for row in np.flatnonzero(alive).tolist():
            table[tree.place[leaves[row][:step]]] = logp[row, list(tree.words)].numpy()
        if step == tree.length - 1:
            break
        chosen = list(_chosen(law.tokens, [ids[step] for ids in leaves]))
        alive &= [at is not None for at in chosen]
        stepper.go_on(range(len(leaves)), [at or 0 for at in chosen])
    return table


def _chosen(tokens: Tensor | None, wanted: Sequence[int]) -> Iterator[int | None]:
    for row, word in enumerate(wanted):
        if tokens is None:
            yield word
            continue
        of_row: list[int] = tokens[row].tolist()
        yield of_row.index(word) if word in of_row else None


def leaves_of(tree: Tree) -> list[Ids]:
    """Return the prefixes that lead through all others."""
    return [ids for ids in tree.prefixes if len(ids) == tree.length - 1]
