"""The reward that a policy trained by DPO stands for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.errors import SpecError
from palate.records import Component, Scores, Settings, Slate
from palate.scorers.autoregressive import Autoregressive
from palate.scorers.lift import difference
from palate.seeding import digest
from palate.specs import Spec

EXAMPLE = "implicit:./models/my-dpo?reference=./models/its-start"


class Implicit:
    """r(x, y) = β [log π(y | x) − log π_ref(y | x)], the end of turn included (DPO, section 4).

    With `?reference=none` it is β log π(y | x). β only scales; a margin is a log-odds where
    `?beta=` gives the β of training and there is a reference. The reference's log-probabilities are
    a pass of their own: another policy over the same rows reads them from disk.
    """

    def __init__(self, spec: Spec, settings: Settings) -> None:
        spec.only({"beta", "reference"})
        policy = spec.need_reference(EXAMPLE)
        reference = spec.options.get("reference")
        if reference is None:
            raise SpecError(f"{spec}: needs what it was trained from, as in {EXAMPLE}, or none")
        self.beta = spec.positive("beta", 1.0)
        names = [policy] if reference == "none" else [policy, reference]
        self.models = [
            Autoregressive(Spec(kind="autoregressive", reference=name), settings) for name in names
        ]
        for model in self.models:
            model.beside = tuple(other for other in self.models if other is not model)
        self.components = tuple(Component(model) for model in self.models)
        first = self.models[0].traits
        prints = [model.traits.fingerprint for model in self.models]
        self.traits = first.model_copy(
            update={
                "fingerprint": digest("implicit", self.beta, *prints),
                "log_odds": "beta" in spec.options and len(names) > 1,
                "details": {"policy": first.details, "reference": self.models[-1].traits.details},
            }
        )

    def reads(self, slate: Slate) -> Slate:
        """Cut what is shown to the shorter of the two windows."""
        return self.models[0].reads(slate)

    def combine(self, parts: Sequence[Scores]) -> Scores:
        """Return the scaled difference of the two sums."""
        nothing = Scores(values=(0.0,) * len(parts[0].values))
        return difference(parts[0], parts[1] if len(parts) > 1 else nothing, self.beta)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield rewards; the policy goes through all slates, then the reference."""
        read = [self.reads(slate) for slate in slates]
        found = [dict(model.score(read)) for model in self.models]
        for k in range(len(read)):
            yield k, self.combine([scores[k] for scores in found])

    def notes(self) -> tuple[str, ...]:
        """Say so where a model is read in padded batches."""
        return tuple(dict.fromkeys(note for model in self.models for note in model.notes()))

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the policy reads, one text per candidate."""
        return self.models[0].prompts(self.reads(slate))
