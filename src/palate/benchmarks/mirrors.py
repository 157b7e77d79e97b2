"""Mirrored couples: two users, one question, the same two responses, opposite choices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from palate.benchmarks.dataset import Dataset
from palate.benchmarks.votes import vote_of
from palate.errors import BenchmarkError
from palate.records import PreferencePair, normal_form
from palate.seeding import rng


def couple_votes(pairs: Dataset, seed: int = 0) -> dict[str, str]:
    """Return each coupled pair's mirror row by id, as many couples of opposite votes as can be.

    A seeded maximum matching within each (question, two responses), told by their normal forms
    (turns before the question included);
    `mirror_of`, where it is set both ways, wins. Each pair stands in one couple at most. Empty
    where no users disagree.
    """
    mirror_row = {pairs.pairs[i].id: pairs.pairs[j].id for i, j in pairs.couples}
    mirror_row |= {theirs: ours for ours, theirs in mirror_row.items()}
    groups: dict[tuple[str, str, frozenset[str]], list[PreferencePair]] = defaultdict(list)
    for pair in pairs.pairs:
        if pair.id not in mirror_row:
            _, question, responses = vote_of(pair)
            groups[pair.subset, question, responses].append(pair)
    for votes in groups.values():
        # Drawn for the texts as they came; of several forms of one text, for the first.
        question, first, second = min((p.key, *sorted((p.chosen, p.rejected))) for p in votes)
        form = normal_form(first)
        one_way = sorted((p for p in votes if normal_form(p.chosen) == form), key=lambda p: p.id)
        other_way = sorted((p for p in votes if normal_form(p.chosen) != form), key=lambda p: p.id)
        if not one_way or not other_way:
            continue
        stream = rng("mirrors", seed, question, first, second)
        ours, theirs = [p.user_id for p in one_way], [p.user_id for p in other_way]
        for i, j in match_opposite(ours, theirs, stream):
            mirror_row[one_way[i].id] = other_way[j].id
            mirror_row[other_way[j].id] = one_way[i].id
    return mirror_row


def mirrors(pairs: Dataset, seed: int = 0) -> Dataset:
    """Couple each vote with an opposite vote of another user, and leave the rest out.

    Raises `BenchmarkError` where no couple exists.
    """
    pairs = pairs if pairs.split is not None else pairs.select()
    mirror_row = couple_votes(pairs, seed)
    if not mirror_row:
        raise BenchmarkError(
            f"{pairs.name}: no two users chose oppositely between the same two responses to the "
            "same question, so there is no mirrored couple"
        )
    rows = tuple(
        pair
        if pair.mirror_of == mirror_row[pair.id]
        else pair.model_copy(update={"mirror_of": mirror_row[pair.id]})
        for pair in pairs.pairs
        if pair.id in mirror_row
    )
    return replace(
        pairs,
        rows=rows,
        mirrored=True,
        mirrors="only",
        everyone=pairs.everyone or pairs.rows,
        undecided=(),
        unrated=(),
    )


def match_opposite(
    users_a: Sequence[Hashable], users_b: Sequence[Hashable], rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Couple votes for the one response with votes for the other, never of the same user.

    A maximum matching, drawn from `rng`: no other choice of couples holds more of them. Its size is
    `min(n_a, n_b, n_a + n_b - max_u (votes of u on both sides))`. Returns pairs (position in
    `users_a`, position in `users_b`), sorted; each position once.

    >>> match_opposite(["ann", "bob"], ["bob", "cy", "ann"], np.random.default_rng(0))
    [(0, 0), (1, 2)]
    """
    n_a, n_b = len(users_a), len(users_b)
    codes = np.unique([*users_a, *users_b], return_inverse=True)[1]
    rows, columns = rng.permutation(n_a), rng.permutation(n_b)
    left, right = codes[:n_a][rows], codes[n_a:][columns]
    if np.intersect1d(left, right).size:
        allowed = csr_array(left[:, None] != right[None, :])
        mirror_row = np.asarray(maximum_bipartite_matching(allowed, perm_type="column"))
        i = np.flatnonzero(mirror_row >= 0)
        j = mirror_row[i]
    else:
        # Everyone may be coupled with everyone: the shuffle alone is a maximum matching.
        i = j = np.arange(min(n_a, n_b))
    return sorted(zip(rows[i].tolist(), columns[j].tolist(), strict=True))
