"""From choices to a trained personal reward model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from palate.embeddings import build_features
from palate.errors import DataError
from palate.learning.personal.embed_choices import gather
from palate.learning.personal.options import read_options
from palate.learning.personal.personal_model import PersonalModel
from palate.learning.personal.protocol import method_of
from palate.learning.personal.scaling import Scaling
from palate.records import Choice, Progress, Settings, user_key
from palate.seeding import digest
from palate.session import Session


def fit(
    method: str,
    history: Mapping[str, Sequence[Choice]],
    embedders: Sequence[str],
    session: Session,
    settings: Settings,
    *,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> PersonalModel:
    """Train a method on users' choices (user id → choices).

    Raises:
        SpecError: for an unknown method or embedder.
        UsageError: for an option that the method does not have.
        DataError: where there is nothing to learn from.
    """
    method_class = method_of(method)
    read_options(method_class, options or {})  # before anything is embedded
    features = build_features(embedders, session, settings)
    gathered = gather(
        features, list(history.values()), prompts=method_class.needs_prompts, progress=progress
    )
    choices = gathered.choices
    if not len(choices):
        raise DataError(f"{method}: no choice to learn from")
    used = np.unique(np.concatenate([choices.chosen, choices.rejected]))
    scaling = Scaling.of(choices.features[used], features.widths)
    facts = {
        "users": [user_key(user) for user in history],
        "n_choices": len(choices),
        "n_too_long": gathered.n_too_long,
        "data": digest(
            "history", {user: [c.model_dump() for c in listed] for user, listed in history.items()}
        ),
        "seed": settings.seed,
    }
    model = method_class.fit(scaling.of_choices(choices), seed=settings.seed, **(options or {}))
    return PersonalModel(model, scaling, tuple(embedders), features.meaning, facts)
