"""Mirrored couples: two users, one question, the same two responses, opposite choices."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from palate.benchmarks.benchmark import PairSet
from palate.errors import BenchmarkError
from palate.metrics import match_opposite
from palate.records import PreferencePair
from palate.seeding import rng


def couple_votes(pairs: PairSet, seed: int = 0) -> dict[str, str]:
    """Return each coupled pair's partner by id, as many couples of opposite votes as can be.

    A seeded maximum matching within each (question, two responses); `mirror_of`, where it is set
    both ways, wins. Each pair stands in one couple at most. Empty where no users disagree.
    """
    partner = {pairs.pairs[i].id: pairs.pairs[j].id for i, j in pairs.couples}
    partner |= {theirs: ours for ours, theirs in partner.items()}
    groups: dict[tuple[str, str, str, str], list[PreferencePair]] = defaultdict(list)
    for pair in pairs.pairs:
        if pair.id not in partner:
            first, second = sorted((pair.chosen, pair.rejected))
            groups[pair.subset, pair.question, first, second].append(pair)
    for (_, question, first, second), votes in sorted(groups.items()):
        one_way = sorted((p for p in votes if p.chosen == first), key=lambda p: p.id)
        other_way = sorted((p for p in votes if p.chosen != first), key=lambda p: p.id)
        if not one_way or not other_way:
            continue
        stream = rng("mirrors", seed, question, first, second)
        ours, theirs = [p.user_id for p in one_way], [p.user_id for p in other_way]
        for i, j in match_opposite(ours, theirs, stream):
            partner[one_way[i].id] = other_way[j].id
            partner[other_way[j].id] = one_way[i].id
    return partner


def mirrors(pairs: PairSet, seed: int = 0) -> PairSet:
    """Couple each vote with an opposite vote of another user, and leave the rest out.

    Raises `BenchmarkError` where no couple exists.
    """
    pairs = pairs if pairs.split is not None else pairs.select()
    partner = couple_votes(pairs, seed)
    if not partner:
        raise BenchmarkError(
            f"{pairs.name}: no two users chose oppositely between the same two responses to the "
            "same question, so there is no mirrored couple"
        )
    kept = tuple(
        pair if pair.mirror_of == partner[pair.id]
        else pair.model_copy(update={"mirror_of": partner[pair.id]})
        for pair in pairs.pairs if pair.id in partner
    )  # fmt: skip
    return replace(
        pairs, pairs=kept, mirrored=True, mirrors="only", everyone=pairs.everyone or pairs.pairs
    )
