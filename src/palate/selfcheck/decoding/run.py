"""All laws of guided writing, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import get_args

from palate.selfcheck.decoding.checks import Kind, LawCheck
from palate.selfcheck.decoding.limits import limit_checks
from palate.selfcheck.decoding.segment_checks import segment_checks
from palate.selfcheck.decoding.token_checks import candidate_checks, fusion_checks
from palate.selfcheck.decoding.words import WORDS
from palate.selfcheck.decoding.world import WordWorld


def check_decoding(
    seed: int = 0, *, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[LawCheck]:
    """Check the laws of guided writing on models of eight words; deterministic for a seed."""
    world, two_ends = WordWorld(seed), WordWorld(seed, WORDS[-2:])
    parts: list[Iterable[LawCheck]] = [
        fusion_checks(world, two_ends),
        candidate_checks(world),
        segment_checks(world, two_ends),
        limit_checks(world),
    ]
    checks: list[LawCheck] = []
    for k, part in enumerate(parts, 1):
        checks += part
        progress(k, len(parts))
    return sorted(checks, key=lambda check: get_args(Kind).index(check.kind))
