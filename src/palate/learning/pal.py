"""Ideal points mixed from prototypes (PAL; Chen, Chen, Rege and Vinayak 2024): PAL-A and PAL-B.

Both are fitted as `low_rank.SimplexMixture` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import expit

from palate.errors import DataError
from palate.learning.choices import (
    Choices,
    Doubles,
    Floats,
    along,
    dots,
    narrowed,
    pieces,
    slate_dots,
    sums_by_user,
)
from palate.learning.low_rank import OUTWARD, PULLS, SimplexMixture
from palate.learning.personal import Options, Seed
from palate.learning.shrinkage import differences_of_users, farthest_points, truncated_svd
from palate.learning.solvers import Loss
from palate.learning.states import States
from palate.seeding import rng

CURVATURE = 0.1
"""γ at the start; L-BFGS moves it freely above 0."""


@dataclass(eq=False)
class PALA(SimplexMixture):
    """A few ideal answers, mixed by weights of the user (PAL-A).

    score = h·φ + 2 a_u·Fφ − γ |Fφ|², a_u = Σ_k w_uk p_k; the state is w_u, K numbers.

    r_u(x, y) = −|f(φ(x, y)) − a_u|², f a linear map, a_u = Σ_k w_uk p_k, w_u on the simplex;
    squared, unlike the paper's, so that adaptation is convex. It is kept as h·φ + 2 a_u·Fφ − γ
    |Fφ|², γ ≥ 0. With f = √γ F and the ideal point a_u / √γ the last two are the squared distance
    up to −|a_u|² / γ, which no comparison sees; h is a dimension in which everybody's ideal point
    is the same and without end far away, and γ = 0 puts all of them there. So linear rewards belong
    to the model, and with F = 0 and h = w it is the global Bradley–Terry head w.

    The penalty is ½ strength (|h − w|² + |F|²) + ½ Σ_k |p_k|².

    Options: `prototypes` is K; `dimensions` the length of Fφ; `ridge` the global head's; `strength`
    and `concentration` both pulls (from strength 1e6 on everybody has the global head);
    `starts` how many seeded fits compete.
    """

    method: ClassVar[str] = "pal-a"
    paper: ClassVar[str] = "Chen, Chen, Rege and Vinayak 2024, arXiv 2406.08469"
    defaults: ClassVar[Options] = {"prototypes": 4, "dimensions": 8, **PULLS}

    fitted: ClassVar[Sequence[str]] = ("head", "mapping", "prototypes", "curvature")
    lowest: ClassVar[Sequence[float | None]] = (None, None, None, 0.0, None)

    head: Doubles
    mapping: Doubles
    prototypes: Doubles
    curvature: Doubles
    """γ, one number."""
    shares: Doubles
    options: Options

    @classmethod
    def at_global_head(cls, choices: Choices, head: Doubles, options: Options) -> Self:
        """Return the model that is the global head for everybody: F = 0."""
        k, q = options["prototypes"], options["dimensions"]
        mapping, prototypes = np.zeros((q, len(head))), np.zeros((k, q))
        return cls(head, mapping, prototypes, np.zeros(1), np.full(k, 1 / k), options)

    @classmethod
    def begin(cls, choices: Choices, head: Doubles, options: Options, seed: Seed) -> Self:
        """Return F of the directions in which users differ, prototypes of users far apart."""
        k, q, stream = options["prototypes"], options["dimensions"], rng("pal-a", *seed)
        apart = differences_of_users(choices, head)
        _, sizes, right = truncated_svd(apart, q, stream)
        lengths = np.sqrt(np.maximum(sizes / np.sqrt(len(apart)), 1e-6))
        model = cls.at_global_head(choices, head, options)
        model.mapping[: len(sizes)] = lengths[:, None] * right
        far = OUTWARD * farthest_points(apart, k, stream)
        model.prototypes[:, : len(sizes)] = far @ right.T / lengths / 2
        return model.changed(curvature=np.array([CURVATURE]))

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return h·φ + 2 a_u·Fφ − γ |Fφ|²."""
        ideal = dots(states["weights"], self.prototypes.T)
        mapped = dots(candidates, self.mapping)
        near = dots(candidates, self.head) + 2 * slate_dots(mapped, ideal)
        return np.asarray(near - self.curvature * (mapped**2).sum(axis=2))

    def by_prototype(self, choices: Choices) -> Doubles:
        """Return each choice's margin under each prototype (n × K)."""
        margins = np.empty((len(choices), len(self.prototypes)))
        for piece in pieces(len(choices), 2 * choices.width):
            chosen, rejected = (
                choices.features[of[piece]].astype(np.float64)
                for of in (choices.chosen, choices.rejected)
            )
            apart, both = (chosen - rejected) @ self.mapping.T, (chosen + rejected) @ self.mapping.T
            shared = (chosen - rejected) @ self.head - self.curvature * (apart * both).sum(axis=1)
            margins[piece] = shared[:, None] + 2 * apart @ self.prototypes.T
        return margins

    def joint(self, choices: Choices, head: Doubles) -> Loss:
        """Return the loss of h, F, the prototypes, γ and w (users × K), with its gradients."""
        rows, sums = choices.differences.astype(np.float64), sums_by_user(choices)
        chosen, rejected = (choices.features[of] for of in (choices.chosen, choices.rejected))
        both = chosen.astype(np.float64) + rejected
        centre, strength = head, self.options["strength"]

        def loss(
            head: Doubles, mapping: Doubles, prototypes: Doubles, bend: Doubles, weights: Doubles
        ) -> tuple[float, list[Doubles]]:
            # |Fφ|² of the chosen less that of the rejected is F(φ − φ')·F(φ + φ').
            apart, together = rows @ mapping.T, both @ mapping.T
            toward = 2 * (weights @ prototypes)[choices.user] - bend * together
            margins = rows @ head + np.einsum("nq,nq->n", apart, toward)
            pull = -expit(-margins)[:, None]
            far = head - centre
            value = np.logaddexp(0, -margins).sum()
            value += 0.5 * strength * (far @ far + (mapping**2).sum()) + 0.5 * (prototypes**2).sum()
            by_head = rows.T @ pull[:, 0] + strength * far
            by_mapping = (pull * toward).T @ rows - bend * ((pull * apart).T @ both)
            by_mapping += strength * mapping
            by_ideal = 2 * (sums @ (pull * apart))
            by_prototypes = weights.T @ by_ideal + prototypes
            by_bend = -np.array([(pull * apart * together).sum()])
            by_weights = by_ideal @ prototypes.T
            return float(value), [by_head, by_mapping, by_prototypes, by_bend, by_weights]

        return loss


NOISE = 0.3
"""Size of the random part of a start's maps of the question."""


class Questions(NamedTuple):
    """φ(x) → (1, components · (φ(x) − mean)), the second part of mean square length 1."""

    mean: Doubles
    components: Doubles
    """c × d, one scale for all: the first components stay the longest."""

    @classmethod
    def of(cls, prompts: Floats, count: int) -> Questions:
        """Measure on the training questions (m × d); at most `count` components are kept."""
        mean = prompts.mean(axis=0, dtype=np.float64)
        scatter = np.zeros((prompts.shape[1], prompts.shape[1]))
        for piece in pieces(*prompts.shape):
            apart = prompts[piece] - mean
            scatter += apart.T @ apart
        sizes, directions = np.linalg.eigh(scatter / len(prompts))
        first = directions[:, ::-1][:, :count].T
        total = sizes[::-1][:count].sum()
        return cls(mean, first / np.sqrt(total) if total > 0 else np.zeros_like(first))

    @property
    def width(self) -> int:
        """Numbers of a question as read, the leading 1 counted."""
        return 1 + len(self.components)

    def apply(self, prompts: Floats) -> Doubles:
        """Return questions (m × d) as read (m × width)."""
        read = np.ones((len(prompts), self.width))
        for piece in pieces(*prompts.shape):
            read[piece, 1:] = dots(prompts[piece] - self.mean, self.components)
        return read

    def of_choices(self, choices: Choices) -> Doubles:
        """Return every choice's question as read (n × width)."""
        prompts = prompts_of(choices.prompts)
        read = np.ones((len(choices), self.width))
        for piece in pieces(len(choices), choices.width):
            read[piece] = self.apply(prompts[choices.chosen[piece]])
        return read


def prompts_of(prompts: Floats | None) -> Floats:
    """Return the questions' vectors; raises `DataError` where they are missing."""
    if prompts is None:
        raise DataError("the questions' vectors are missing")
    return prompts


@dataclass(eq=False)
class PALB(SimplexMixture):
    """A few rewards that depend on the question, mixed by the user (PAL-B).

    score = h·φ + Fφ · Σ_k w_uk G_k (1, question); the state is w_u, K numbers that sum to 1.

    r_u(x, y) = f(φ(x, y))·a_u(x) with a_u(x) = Σ_k w_uk g_k(φ(x)), w_u on the simplex: f a linear
    map of the response's vector, g_k affine maps of the question's. The reward is the inner product
    and not scale · cosine: it is linear in w_u, so that adaptation is convex. One number of f and a
    is kept apart: h·φ, its user side the constant 1. So with F = 0 and h = w it is the global
    Bradley–Terry head w, and else it is h·φ + Fφ · Σ_k w_uk G_k (1, question).

    The question's vector is first cut to its principal components over the training questions,
    since there are far fewer questions than numbers of a vector. The penalty is ½ strength (|h −
    w|² + |F|²) + ½ Σ_k |G_k|².

    Options: `prototypes` is K; `dimensions` is q; `components` how many principal components of the
    question are kept; `ridge` the global head's; `strength` and `concentration` both pulls
    (from strength 1e6 on everybody has the global head); `starts` how many seeded fits compete.
    """

    method: ClassVar[str] = "pal-b"
    paper: ClassVar[str] = "Chen, Chen, Rege and Vinayak 2024, arXiv 2406.08469"
    needs_prompts: ClassVar[bool] = True
    defaults: ClassVar[Options] = {"prototypes": 4, "dimensions": 4, "components": 32, **PULLS}

    fitted: ClassVar[Sequence[str]] = ("head", "mapping", "projectors")

    head: Doubles
    mapping: Doubles
    projectors: Doubles
    question_mean: Doubles
    question_components: Doubles
    shares: Doubles
    options: Options

    @classmethod
    def at_global_head(cls, choices: Choices, head: Doubles, options: Options) -> Self:
        """Return everybody's global head; raises `DataError` without the questions' vectors."""
        k, q = options["prototypes"], options["dimensions"]
        asked = prompts_of(choices.prompts)[np.unique(choices.chosen)]
        questions = Questions.of(asked, options["components"])
        mapping, projectors = np.zeros((q, len(head))), np.zeros((k, q, questions.width))
        return cls(head, mapping, projectors, *questions, np.full(k, 1 / k), options)

    @classmethod
    def begin(cls, choices: Choices, head: Doubles, options: Options, seed: Seed) -> Self:
        """Return directions in which users differ, and maps of the question of users far apart."""
        stream, k = rng("pal-b", *seed), options["prototypes"]
        model = cls.at_global_head(choices, head, options)
        apart = differences_of_users(choices, head)
        _, sizes, right = truncated_svd(apart, len(model.mapping), stream)
        lengths = np.sqrt(sizes / np.sqrt(choices.users))
        model.mapping[: len(sizes)] = lengths[:, None] * right
        rough = stream.normal(size=model.mapping.shape) / np.sqrt(choices.width)
        model.mapping += rough * max(1.0, float(np.linalg.norm(head)))
        shared = stream.normal(size=model.projectors.shape[1:])
        model.projectors[:] += NOISE * shared
        # Given F, a choice is linear in G: its numbers are Fφ's difference times the question's.
        mapped = along(choices, model.mapping.T)
        crossed = np.einsum("nq,np->nqp", mapped, model.questions.of_choices(choices))
        shown = [crossed.reshape(len(choices), -1), along(choices, head[:, None])]
        low = narrowed(choices, np.hstack(shown))
        apart = differences_of_users(low, np.append(model.projectors[0].ravel(), 1.0))[:, :-1]
        far = OUTWARD * farthest_points(apart, k, stream)
        model.projectors[:] += far.reshape(model.projectors.shape)
        return model

    @property
    def questions(self) -> Questions:
        """How questions are read."""
        return Questions(self.question_mean, self.question_components)

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return the rewards; `prompts` (s × d) are the slates' questions."""
        asked = self.questions.apply(prompts_of(prompts))
        weights = states["weights"].astype(np.float64)
        ideal = np.einsum("sk,skq->sq", weights, np.einsum("kqp,sp->skq", self.projectors, asked))
        return dots(candidates, self.head) + slate_dots(dots(candidates, self.mapping), ideal)

    def by_prototype(self, choices: Choices) -> Doubles:
        """Return each choice's margin under each prototype (n × K)."""
        mapped = along(choices, self.mapping.T)
        asked = self.questions.of_choices(choices)
        mixed = np.einsum("nq,kqp,np->nk", mapped, self.projectors, asked, optimize=True)
        return np.asarray(along(choices, self.head[:, None]) + mixed)

    def joint(self, choices: Choices, head: Doubles) -> Loss:
        """Return the loss of h, F, the G_k and w (users × K), with its gradients."""
        rows, sums = choices.differences.astype(np.float64), sums_by_user(choices)
        questions = self.questions.of_choices(choices)
        centre, strength = head, self.options["strength"]

        def loss(
            head: Doubles, mapping: Doubles, projectors: Doubles, weights: Doubles
        ) -> tuple[float, list[Doubles]]:
            k, q, p = projectors.shape
            mixed, mapped = weights[choices.user], rows @ mapping.T
            ideals = (questions @ projectors.reshape(k * q, p).T).reshape(-1, k, q)
            toward = np.einsum("nk,nkq->nq", mixed, ideals)
            scores = np.einsum("nq,nkq->nk", mapped, ideals)
            margins = rows @ head + np.einsum("nk,nk->n", mixed, scores)
            pull = -expit(-margins)[:, None]
            far = head - centre
            value = np.logaddexp(0, -margins).sum()
            value += 0.5 * strength * (far @ far + (mapping**2).sum()) + 0.5 * (projectors**2).sum()
            by_head = rows.T @ pull[:, 0] + strength * far
            by_mapping = (pull * toward).T @ rows + strength * mapping
            crossed = (mixed[:, :, None] * (pull * mapped)[:, None, :]).reshape(-1, k * q)
            by_projectors = (crossed.T @ questions).reshape(k, q, p) + projectors
            return float(value), [by_head, by_mapping, by_projectors, sums @ (pull * scores)]

        return loss
