"""Ideal points that move with the question (PAL-B; Chen, Chen, Rege and Vinayak 2024).

r_u(x, y) = f(φ(x, y))·a_u(x) with a_u(x) = Σ_k w_uk g_k(φ(x)), w_u on the simplex: f a linear map
of the response's vector, g_k affine maps of the question's. The reward is the inner product and not
scale · cosine: it is linear in w_u, so that adaptation is convex. One number of f and a is kept
apart: h·φ, its user side the constant 1. So with F = 0 and h = w it is the global Bradley–Terry
head w, and else it is h·φ + Fφ · Σ_k w_uk G_k (1, question).

The question's vector is first cut to its principal components over the training questions, since
there are far fewer questions than numbers of a vector. It is fitted as `simplex_mixture` says,
under ½ strength (|h − w|² + |F|²) + ½ Σ_k |G_k|².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.special import expit

from palate.learning.methods.questions import Questions, given
from palate.learning.methods.simplex_mixture import OUTWARD, SimplexMixture
from palate.learning.methods.starts import differences_of_users, farthest_points, truncated_svd
from palate.learning.personal.choices import Choices, Doubles, Floats
from palate.learning.personal.products import dots, slate_dots
from palate.learning.personal.projection import along, narrowed, sums_by_user
from palate.learning.personal.protocol import Options, Seed, States
from palate.learning.solvers.descent import Loss
from palate.seeding import rng

NOISE = 0.3
"""Size of the random part of a start's maps of the question."""


@dataclass(eq=False)
class PALB(SimplexMixture):
    """A few rewards that depend on the question, mixed by the user (PAL-B).

    score = h·φ + Fφ · Σ_k w_uk G_k (1, question); the state is w_u, K numbers that sum to 1.

    Options: `prototypes` is K; `dimensions` is q; `components` how many principal components of the
    question are kept; `ridge` the global head's; `strength` and `concentration` both pulls
    (from strength 1e6 on everybody has the global head); `starts` how many seeded fits compete.
    """

    method: ClassVar[str] = "pal-b"
    paper: ClassVar[str] = "Chen, Chen, Rege and Vinayak 2024, arXiv 2406.08469"
    needs_prompts: ClassVar[bool] = True
    defaults: ClassVar[Options] = {
        "prototypes": 4,
        "dimensions": 4,
        "components": 32,
        "ridge": None,
        "strength": None,
        "concentration": None,
        "starts": 3,
    }

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
        """Return the model that is the global head for everybody, whatever is asked.

        Raises `DataError` where the choices come without their questions' vectors.
        """
        k, q = options["prototypes"], options["dimensions"]
        asked = given(choices.prompts)[np.unique(choices.chosen)]
        questions = Questions.of(asked, options["components"])
        mapping, projectors = np.zeros((q, len(head))), np.zeros((k, q, questions.width))
        return cls(head, mapping, projectors, *questions, np.full(k, 1 / k), options)

    @classmethod
    def begin(cls, choices: Choices, head: Doubles, options: Options, seed: Seed) -> Self:
        """Return directions in which users differ, and maps of the question of users far apart."""
        stream, k = rng("pal-b", *seed), options["prototypes"]
        model = cls.at_global_head(choices, head, options)
        _, sizes, right = truncated_svd(
            differences_of_users(choices, head), len(model.mapping), stream
        )
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
        asked = self.questions.apply(given(prompts))
        weights = states["weights"].astype(np.float64)
        ideal = np.einsum("sk,skq->sq", weights, np.einsum("kqp,sp->skq", self.projectors, asked))
        return dots(candidates, self.head) + slate_dots(dots(candidates, self.mapping), ideal)

    def by_prototype(self, choices: Choices) -> Doubles:
        """Return each choice's margin under each prototype (n × K)."""
        mapped = along(choices, self.mapping.T)
        asked = self.questions.of_choices(choices)
        own = np.einsum("nq,kqp,np->nk", mapped, self.projectors, asked, optimize=True)
        return np.asarray(along(choices, self.head[:, None]) + own)

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
