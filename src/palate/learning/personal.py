"""The protocol of personal reward models: learn from many users, adapt to one, score."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from palate.embeddings import Features, build_features, plain_item
from palate.errors import DataError, ModelError, UsageError, writing
from palate.files import write_json, write_whole
from palate.learning.choices import Choices, Doubles, Floats, Scaling
from palate.learning.states import (
    History,
    States,
    UserStates,
    bytes_of,
    hash_of,
    history_hash,
    read_tensors,
    repeated,
    take,
)
from palate.records import Choice, Progress, Settings, user_key
from palate.seeding import digest
from palate.session import Session
from palate.specs import load

METHODS = "palate.methods"
Options = Mapping[str, Any]
"""Of a method, by name."""
Seed = tuple[int, int]
"""The seed of a fit, and which of its starts it is for."""


class Model(Protocol):
    """A fitted family of reward models, one per user state.

    Vectors come in scaled; scores are log-odds where `log_odds` says so: the difference of two
    responses' scores is the log-odds that the user prefers the first.
    """

    method: ClassVar[str]
    """Its name in `palate train NAME`."""
    paper: ClassVar[str]
    """Authors, year and where."""
    log_odds: ClassVar[bool]
    needs_prompts: ClassVar[bool]
    """True where a score also depends on the question's vector."""
    exact: ClassVar[bool]
    """True where a score does not depend on what is scored with it, to the last bit."""
    defaults: ClassVar[Options]
    """Options of `fit` and their values where none is given."""
    options: Options
    """What it was fitted with."""

    @classmethod
    def fit(cls, choices: Choices, *, seed: int = 0, **options: Any) -> Self:
        """Learn what users share. Raises `DataError` where nothing can be learnt."""

    def prior(self) -> States:
        """Return the state of one user of whom nothing is known."""

    def adapt(self, choices: Choices) -> States:
        """Return one state per user of `choices`, all in one job; no choices give the prior."""

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return scores (s × c) of slates' candidates (s × c × d), one user state a slate."""

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return what was learnt."""

    @classmethod
    def load(cls, tensors: Mapping[str, NDArray[Any]], options: Options) -> Self:
        """Return the model of what `tensors` gave."""


def method_of(name: str) -> type[Model]:
    """Return the class behind a method's name; raises `SpecError` with near misses."""
    method: type[Model] = load(METHODS, name)
    return method


def read_options(method: type[Model], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the method's options, defaults filled in; raises `UsageError` for what is none.

    Numbers are above 0; where the default is None (chosen from the data) any of them goes.
    """
    unknown = sorted(set(given) - set(method.defaults))
    if unknown:
        known = ", ".join(method.defaults) or "none"
        raise UsageError(f"{method.method}: unknown option {unknown[0]!r} (known: {known})")
    read = {name: _read(method.method, name, given[name], method.defaults[name]) for name in given}
    return {**method.defaults, **read}


def _read(method: str, name: str, value: Any, default: Any) -> Any:
    if isinstance(default, (str, bool)):
        if not isinstance(value, type(default)):
            raise UsageError(f"{method}: {name}={value!r} is not like {default!r}")
        return value
    if value is None and default is None:
        return None
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:
        raise UsageError(f"{method}: {name}={value!r} is not a number above 0")
    if isinstance(default, int):
        if int(value) != value:
            raise UsageError(f"{method}: {name}={value!r} is not a whole number")
        return int(value)
    return float(value)


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
        self, history: History, features: Features, progress: Progress | None = None
    ) -> UserStates:
        """Return a state per user (key → choices), all in one job."""
        by_user = list(history.values())
        choices, n_too_long = gather(features, by_user, self.model.needs_prompts, progress)
        states = self.model.adapt(self.scaling.of_choices(choices))
        return UserStates(tuple(history), states, self.fingerprint, n_too_long)

    def score(self, states: States, candidates: Floats, prompts: Floats | None) -> Doubles:
        """Return scores (s × c) of unscaled vectors (s × c × d), one state a slate."""
        scaled = self.scaling.apply(candidates)
        asked = None if prompts is None else self.scaling.apply(prompts)
        return self.model.score(states, scaled, asked)

    def score_each(
        self, states: States, candidates: Floats, prompts: Floats | None, minus_prior: bool = False
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
            vectors = scaled.astype(np.float64)
            return np.asarray(np.einsum("scd,ud->usc", vectors, heads, optimize=True))
        asked = None if prompts is None else self.scaling.apply(prompts)

        def scores(known: States, user: int) -> Doubles:
            return self.model.score(take(known, np.full(len(scaled), user)), scaled, asked)

        users = range(len(next(iter(states.values()))))
        scored = np.stack([scores(states, user) for user in users])
        return scored - scores(self.model.prior(), 0) if minus_prior else scored

    def save(self, folder: Path) -> None:
        """Write the folder's files; raises `ResourceError` where they cannot be written."""
        facts = {
            "schema": 1,
            "kind": "personal",
            "method": self.model.method,
            "options": dict(self.model.options),
            "embedders": list(self.embedders),
            "meaning": self.meaning,
            **self.facts,
        }
        with writing(folder):
            write_whole(folder / WEIGHTS, bytes_of(self._tensors()))
            write_json(folder / FACTS, facts)

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
        model = method_of(facts["method"]).load(tensors, facts["options"])
        known = {"schema", "kind", "method", "options", "embedders", "meaning"}
        others = {name: value for name, value in facts.items() if name not in known}
        return cls(model, scaling, tuple(facts["embedders"]), facts["meaning"], others)

    def _tensors(self) -> dict[str, NDArray[Any]]:
        scaling = {"scaling.mean": self.scaling.mean, "scaling.scale": self.scaling.scale}
        return {**self.model.tensors(), **scaling}


def gather(
    features: Features,
    by_user: Sequence[Iterable[Choice]],
    prompts: bool = False,
    progress: Progress | None = None,
) -> tuple[Choices, int]:
    """Embed responses once; return the choices of users 0, 1, … and how many are too long."""
    owned = [(user, choice) for user, listed in enumerate(by_user) for choice in listed]
    places: dict[tuple[str, str], int] = {}
    sides = [
        [places.setdefault((c.key, text), len(places)) for text in (c.chosen, c.rejected)]
        for _, c in owned
    ]
    conversations = {c.key: c.messages for _, c in owned}
    items = [plain_item(conversations[question], response) for question, response in places]
    table = features.table(items, progress)
    usable: NDArray[np.bool_] = np.asarray(np.isfinite(table).all(axis=1))
    questions = features.prompts(items) if prompts else None
    if questions is not None:
        usable = usable & np.asarray(np.isfinite(questions).all(axis=1))
        questions = np.nan_to_num(questions)
    rows = np.array(sides, np.int64).reshape(-1, 2)
    fits = usable[rows].all(axis=1) if len(rows) else np.empty(0, bool)
    users = np.array([user for user, _ in owned], np.int64)
    code: dict[str, int] = {}
    question = np.array([code.setdefault(asked_of, len(code)) for asked_of, _ in places], np.int64)
    both = np.nan_to_num(table), users[fits], rows[fits, 0], rows[fits, 1]
    choices = Choices(*both, users=len(by_user), prompts=questions, question=question)
    return choices, int((~fits).sum())


def fit(
    method: str,
    history: History,
    embedders: Sequence[str],
    session: Session,
    settings: Settings,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> PersonalModel:
    """Train a method on users' choices (user id → choices).

    Raises `SpecError` for an unknown method or embedder, `UsageError` for an option that the method
    does not have, and `DataError` where there is nothing to learn from.
    """
    method_class = method_of(method)
    read_options(method_class, options or {})  # before anything is embedded
    features = build_features(embedders, session, settings)
    by_user = list(history.values())
    choices, n_too_long = gather(features, by_user, method_class.needs_prompts, progress)
    if not len(choices):
        raise DataError(f"{method}: no choice to learn from")
    used = np.unique(np.concatenate([choices.chosen, choices.rejected]))
    scaling = Scaling.of(choices.features[used], features.widths)
    facts = {
        "users": [user_key(user) for user in history],
        "n_choices": len(choices),
        "n_too_long": n_too_long,
        "data": history_hash(history),
        "seed": settings.seed,
    }
    model = method_class.fit(scaling.of_choices(choices), seed=settings.seed, **(options or {}))
    return PersonalModel(model, scaling, tuple(embedders), features.meaning, facts)
