"""Kinds of users: who shares traits, or writes alike. A stranger may be one of the user's kind."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from warnings import catch_warnings

import numpy as np

from palate.benchmarks import Dataset
from palate.contexts.controls import CLUSTER
from palate.embeddings import style_of
from palate.errors import BenchmarkError
from palate.records import User, is_nobody, normal_form


def kinds_of(users: Mapping[str, User], same: str) -> Mapping[str, Hashable]:
    """Return the kind of each user who has one: their values of these traits, or their cluster.

    Clusters are palate's own: k-means, k = √(U/2), of U users' vectors, the mean `style` of their
    posts, else of the responses they chose, each number over its deviation.

    >>> kinds_of({name: User(id=name, traits={"age": name[-1]}) for name in ("ann4", "bo5")}, "age")
    {'ann4': ('4',), 'bo5': ('5',)}
    """
    if same == CLUSTER and not any(same in it.traits for it in users.values()):
        return _clusters(users)
    traits = same.split(",")
    table = {of: [it.traits.get(name, "").strip() for name in traits] for of, it in users.items()}
    table = {of: each for of, each in table.items() if all(each) and not any(map(is_nobody, each))}
    return {of: (*map(normal_form, each),) for of, each in table.items()}


def need_same(dataset: Dataset, same: str) -> None:
    """Raise `BenchmarkError` where no row has what strangers are to share."""
    for name in filter(None, same.split(",")):
        if name != CLUSTER:
            dataset.need_trait(name)
        elif not (dataset.history or any(it.profile or name in it.traits for it in dataset.rows)):
            raise BenchmarkError(f"{dataset.name} has no posts or past choices to cluster users by")


def _clusters(users: Mapping[str, User]) -> dict[str, int]:
    from scipy.cluster.vq import kmeans2, vq  # slow to import

    texts = {name: [it.text for it in users[name].posts] for name in sorted(users)}
    texts |= {name: [it.chosen for it in users[name].choices] for name in texts if not texts[name]}
    names = [name for name, written in texts.items() if written]
    if not names:
        return {}
    table = np.array([np.mean([*map(style_of, texts[name])], axis=0) for name in names], float)
    table /= np.where(table.std(axis=0) > 0, table.std(axis=0), 1.0)
    with catch_warnings(action="ignore"):  # of a start that leaves a cluster without users
        k = max(1, round((len(names) / 2) ** 0.5))
        starts = (kmeans2(table, k, minit="++", seed=start)[0] for start in range(10))
        nearest, _ = min((vq(table, it) for it in starts), key=lambda it: float(it[1] @ it[1]))
    return dict(zip(names, nearest.tolist(), strict=True))
