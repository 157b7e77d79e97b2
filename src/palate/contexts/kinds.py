"""Kinds of users: who shares traits, or writes alike. A stranger may be one of the user's kind.

Clusters are palate's own, for data without traits: k-means, k = √(U/2), of U users' vectors, the
mean `style` of their posts, else of the responses they chose, each number over its deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from warnings import catch_warnings, simplefilter

import numpy as np

from palate.benchmarks import Dataset
from palate.contexts.controls import CLUSTER
from palate.embeddings import style_of
from palate.errors import BenchmarkError
from palate.records import KindOf, User, UserPool

STARTS = 10


def of_kind(pool: UserPool, user: User, same: str) -> UserPool:
    """Return the pool whose stranger shares these traits, or `cluster`, with the user, if any.

    >>> users = {name: User(id=name, traits={"age": name[-1]}) for name in ("ann4", "bo5", "cy4")}
    >>> of_kind(UserPool(users).at("row 7", "ann4"), users["ann4"], "age").stranger("traits").id
    'cy4'
    """
    return pool.of_kind(same, kinds_by(same), user) if same else pool


def kinds_by(same: str) -> Callable[[Mapping[str, User]], KindOf]:
    """Return what makes of all users what tells a user's kind; who lacks a trait is of none."""
    return _clusters if same == CLUSTER else lambda users: partial(_values, same.split(","))


def need_same(dataset: Dataset, same: str) -> None:
    """Raise `BenchmarkError` where no row has a trait that strangers are to share, or no texts."""
    if same == CLUSTER and not (dataset.history or any(row.profile for row in dataset.rows)):
        raise BenchmarkError(f"{dataset.name} has no posts and no past choices to cluster users by")
    for name in {*same.split(",")} - {"", CLUSTER}:
        dataset.need_trait(name)


def _values(names: list[str], user: User) -> tuple[str, ...] | None:
    values = tuple(user.traits.get(name, "").strip() for name in names)
    return values if all(values) else None


def _clusters(users: Mapping[str, User]) -> KindOf:
    from scipy.cluster.vq import kmeans2, vq  # slow to import

    texts = {
        name: [post.text for post in user.posts] or [choice.chosen for choice in user.choices]
        for name, user in sorted(users.items())
    }
    names = [name for name, written in texts.items() if written]
    if not names:
        return partial(_cluster, {})
    table = np.array([np.mean([*map(style_of, texts[name])], axis=0) for name in names], float)
    table /= np.where(table.std(axis=0) > 0, table.std(axis=0), 1.0)
    k = max(1, round((len(names) / 2) ** 0.5))
    with catch_warnings():
        simplefilter("ignore")  # a start may leave a cluster without users
        starts = (kmeans2(table, k, minit="++", seed=start)[0] for start in range(STARTS))
        nearest, _ = min((vq(table, it) for it in starts), key=lambda it: float(it[1] @ it[1]))
    return partial(_cluster, dict(zip(names, nearest.tolist(), strict=True)))


def _cluster(known: Mapping[str, int], user: User) -> int | None:
    return known.get(user.id)
