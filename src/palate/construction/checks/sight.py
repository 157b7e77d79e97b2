"""Can the filters see? Each must prefer a text to another that is worse without any doubt.

A filter that sees nothing passes every pair, and a judge that must choose drops them all: neither
says anything of the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from palate.answers import Sample, Samples
from palate.benchmarks import Dataset
from palate.construction.checks.gap import Gaps
from palate.construction.checks.result import Sight
from palate.errors import EndpointError
from palate.evaluation import Work, evaluated
from palate.quality import QualityMetric, rate_samples
from palate.records import Outcome, PreferencePair, normal_form
from palate.runs import VerdictRow
from palate.seeding import rng, shuffled
from palate.words import cut_words, is_unspaced, split_words

LEAST = 30
"""Rows that a filter is tried on, at least: with 21 of 30 won the lower end is above ½."""
SHUFFLED, SHORTENED = "the words shuffled", f"the first {LEAST} words"
ELSEWHERE = "another question's answer"


def share_won(
    name: Literal["blind", "gap", "rubric"], other: str, wins: Sequence[bool] | NDArray[np.bool_]
) -> Sight:
    """Return the share of rows won with its Wilson interval, which needs 30 rows.

    >>> share_won("gap", "a third user's rubric", [True] * 21 + [False] * 9).shown
    True
    """
    from scipy.stats import binomtest  # slow to import

    n, won = len(wins), int(np.sum(wins))
    ends: dict[str, Any] = {"low": None, "high": None}
    if n >= LEAST:
        ends = binomtest(won, n).proportion_ci(method="wilson")._asdict()
    above = (ends["low"] or 0) > 0.5
    return Sight(filter=name, other=other, won=won, n=n, **ends, shown=above)


def blind_sights(pairs: Dataset, blind: str, work: Work) -> list[Sight]:
    """Return how often a blind scorer prefers chosen answers to each twin of third_texts.

    A judge must prefer them in both orders. The verdicts are an ordinary run, kept under the
    work's root. Raises `EndpointError` where an endpoint did not answer; what came is kept.
    """
    against = twins(pairs, work.settings.seed)
    wins: dict[str, list[bool]] = {SHUFFLED: [], SHORTENED: [], ELSEWHERE: []}
    if against.rows:
        run = evaluated(blind, against, "none", work, progress=work.start(f"{blind}, twins"))
        if run.outages:
            raise EndpointError(
                f"{blind}: {run.outages} of {len(against.rows)} twins got no answer; what came is "
                "kept, run the same command again"
            )
        for row in run.verdicts.rows:
            wins[row.subset].append(_won(row))
    return [share_won("blind", twin, won) for twin, won in wins.items()]


def twins(pairs: Dataset, seed: int) -> Dataset:
    """Return pairs of 30 chosen answers, drawn by the seed, and twins of third_texts, one a subset.

    An answer that is its own twin, such as a short one, is passed over for another.
    """
    answers = {normal_form(pair.chosen): pair for pair in shuffled(pairs.pairs, "twins", seed)}
    drawn = list(answers.values())  # an answer that many chose is tried once
    twin_of: Mapping[str, Callable[[PreferencePair], str]] = {
        SHUFFLED: lambda pair: _shuffled(pair.chosen, seed),
        SHORTENED: lambda pair: cut_words(pair.chosen, LEAST),
        ELSEWHERE: lambda pair: _elsewhere(pair, drawn, seed),
    }
    rows = []
    for kind, twin in twin_of.items():
        texts = ((pair, twin(pair)) for pair in drawn)
        other = (both for both in texts if normal_form(both[1]) != normal_form(both[0].chosen))
        for _, (pair, text) in zip(range(LEAST), other, strict=False):
            changed = {"id": f"{pair.id} · {kind}", "rejected": text, "subset": kind}
            bare = {"mirror_of": None, "responses": ()}
            rows.append(pair.model_copy(update=changed | bare))
    return Dataset(f"{pairs.name} twins", tuple(rows), split="all")


def _shuffled(text: str, seed: int) -> str:
    between = "" if is_unspaced(text) else " "
    return between.join(shuffled(split_words(text), "words", seed, text))


def _elsewhere(pair: PreferencePair, drawn: Sequence[PreferencePair], seed: int) -> str:
    start = int(rng("elsewhere", seed, pair.id).integers(len(drawn)))
    around = (*drawn[start:], *drawn[:start])
    return next((p.chosen for p in around if p.normal_key != pair.normal_key), pair.chosen)


def _won(row: VerdictRow) -> bool:
    return row.outcome is Outcome.CHOSEN and all((order or 0) > 0 for order in row.orders)


def adherence_sight(gaps: Gaps) -> Sight:
    """Return how often a chosen answer meets its own user's rubric better than a third user's."""
    # Of several third users the first.
    both = np.hstack([gaps.own_ratings[:, :1], gaps.third_ratings[:, :1, 0]])
    own, third = both[~np.isnan(both).any(axis=1)].T if both.shape[1] == 2 else np.zeros((2, 0))
    return share_won("gap", "a third user's rubric", own > third)


def rubric_sight(pairs: Dataset, measure: QualityMetric, work: Work) -> list[Sight]:
    """Return how often the posts that a rubric does not quote meet it better than a third user's.

    As many posts of each, drawn by the seed, are rated as one text; the evidence is left out of
    the rubric. Nothing for a measure that reads no rubric.
    """
    if "aspects" not in measure.needs:
        return []
    rows, texts = [], []
    for row, *both in _posts(pairs, work.settings.seed):
        rows.append(row)
        texts.append(tuple(Sample("\n\n".join(posts)) for posts in both))
    wins: Sequence[bool] | NDArray[np.bool_] = []
    if rows:
        own_rated, third_rated = rate_samples(
            measure,
            Samples(pairs.name, tuple(row.id for row in rows), tuple(texts)),
            replace(pairs, rows=tuple(rows)),
            work,
            f"{measure.spec} of posts",
        ).values.T
        wins = own_rated > third_rated
    return [share_won("rubric", "a third user's posts", wins)]


def _posts(pairs: Dataset, seed: int) -> Iterator[tuple[PreferencePair, list[str], list[str]]]:
    # Yields a row whose rubric has no evidence, posts that it does not quote, a third user's posts.
    pools = pairs.user_pools(seed)
    for pair in pairs.pairs:
        third = pools[pair.subset].at(pair.id, pair.user_id).stranger("posts")
        lines = [line for a in pair.gold.aspects for line in a.evidence.splitlines()]
        quotes = [quote for line in lines if (quote := normal_form(line))]
        forms = {post.text: normal_form(post.text) for post in pair.profile}
        unquoted = [text for text, form in forms.items() if not any(q in form for q in quotes)]
        third_texts = [post.text for post in third.posts] if third else []
        if pair.gold.aspects and (n := min(len(unquoted), len(third_texts))):
            bare = tuple(a.model_copy(update={"evidence": ""}) for a in pair.gold.aspects)
            gold = pair.gold.model_copy(update={"aspects": bare})
            first, second = (
                shuffled(texts, "posts", seed, pair.id)[:n] for texts in (unquoted, third_texts)
            )
            yield pair.model_copy(update={"gold": gold}), first, second
