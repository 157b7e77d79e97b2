"""A trained personal reward model: the method's numbers, the scaling, and what embeds for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate.embeddings import Features, build_features
from palate.errors import ModelError, writing
from palate.learning.personal.choices import Doubles, Floats
from palate.learning.personal.embed_choices import gather
from palate.learning.personal.protocol import Model, States, method_of, repeated, take
from palate.learning.personal.scaling import Scaling
from palate.learning.personal.states import UserStates, hash_of, read_tensors
from palate.records import Choice, Progress, Settings
from palate.seeding import digest
from palate.session import Session

WEIGHTS, FACTS = "weights.safetensors", "palate.json"


@dataclass(frozen=True)
class PersonalModel:
    """What `palate train METHOD` gives."""

    model: Model
    scaling: Scaling
    embedders: tuple[str, ...]
    """Specs of the sources, as `--embedder` took them."""
    meaning: str
    """Of the vectors it was trained on (`Features.meaning`)."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """How it was trained: users, choices, hash of the data, seed."""

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that a score depends on beside vectors and state."""
        tensors = {name: hash_of(array) for name, array in sorted(self._tensors().items())}
        options = dict(self.model.options)  # adapting depends on them
        return digest("trained", self.model.method, options, self.meaning, tensors)

    @property
    def trained_on(self) -> frozenset[str]:
        """Keys of the users it was trained on."""
        return frozenset(self.facts.get("users", ()))

    def features(self, session: Session, settings: Settings) -> Features:
        """Build what embeds; raises `ModelError` where it is not what it was trained with."""
        built = build_features(self.embedders, session, settings)
        if built.meaning != self.meaning:
            raise ModelError(
                f"{self.model.method}: {' + '.join(self.embedders)} is not the embedder it was "
                "trained with (other weights); train it again"
            )
        return built

    def adapt(
        self,
        history: Mapping[str, Sequence[Choice]],
        features: Features,
        progress: Progress | None = None,
    ) -> UserStates:
        """Return a state per user (key → choices), all in one job."""
        by_user = list(history.values())
        gathered = gather(features, by_user, prompts=self.model.needs_prompts, progress=progress)
        states = self.model.adapt(self.scaling.of_choices(gathered.choices))
        return UserStates(tuple(history), states, self.fingerprint, gathered.n_too_long)

    def score(self, states: States, candidates: Floats, prompts: Floats | None) -> Doubles:
        """Return scores (s × c) of unscaled vectors (s × c × d), one state a slate."""
        scaled = self.scaling.apply(candidates)
        asked = None if prompts is None else self.scaling.apply(prompts)
        return self.model.score(states, scaled, asked)

    def score_each(
        self,
        states: States,
        candidates: Floats,
        prompts: Floats | None,
        *,
        minus_prior: bool = False,
    ) -> Doubles:
        """Return scores (u × s × c) of unscaled vectors (s × c × d), every state with every slate.

        With `minus_prior` less the prior's, exactly 0 for a state that is the prior. Where a score
        is a product with a vector per user, all are one product of matrices.
        """
        scaled = self.scaling.apply(candidates)
        heads_of = getattr(self.model, "heads_of", None)
        if heads_of is not None:
            heads = heads_of(states)
            if minus_prior:
                # As many rows: products of matrices of one shape round alike.
                heads = heads - heads_of(repeated(self.model.prior(), len(heads)))
            found: Doubles = np.einsum(
                "scd,ud->usc", scaled.astype(np.float64), heads, optimize=True
            )
            return found
        asked = None if prompts is None else self.scaling.apply(prompts)

        def scores(known: States, user: int) -> Doubles:
            return self.model.score(take(known, np.full(len(scaled), user)), scaled, asked)

        each = np.stack([scores(states, user) for user in range(len(next(iter(states.values()))))])
        return each - scores(self.model.prior(), 0) if minus_prior else each

    def save(self, folder: Path) -> None:
        """Write the folder's files; raises `ResourceError` where they cannot be written."""
        from safetensors.numpy import save_file

        facts = {
            "schema": 1,
            "kind": "personal",
            "method": self.model.method,
            "options": dict(self.model.options),
            "embedders": list(self.embedders),
            "meaning": self.meaning,
            **self.facts,
        }
        tensors = {name: np.ascontiguousarray(array) for name, array in self._tensors().items()}
        with writing(folder):
            save_file(tensors, folder / WEIGHTS)
            text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
            (folder / FACTS).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> PersonalModel:
        """Read the folder; raises `ModelError` for what is no trained personal model."""
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ModelError(
                f"{folder}: no personal reward model (palate.json: {error}); make one with "
                "palate train"
            ) from error
        if facts.get("kind") != "personal" or facts.get("schema") != 1:
            raise ModelError(
                f"{folder}: {facts.get('kind')!r} is not a personal reward model on vectors; a "
                "p-dpo is evaluated with palate evaluate -s personal:DIR"
            )
        _, tensors = read_tensors(folder / WEIGHTS)
        scaling = Scaling(tensors.pop("scaling.mean"), tensors.pop("scaling.scale"))
        method = method_of(facts["method"])
        known = {"schema", "kind", "method", "options", "embedders", "meaning"}
        return cls(
            method.load(tensors, facts["options"]),
            scaling,
            tuple(facts["embedders"]),
            facts["meaning"],
            {name: value for name, value in facts.items() if name not in known},
        )

    def _tensors(self) -> dict[str, NDArray[Any]]:
        scaling = {"scaling.mean": self.scaling.mean, "scaling.scale": self.scaling.scale}
        return {**self.model.tensors(), **scaling}
