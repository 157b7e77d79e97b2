"""Can the filters see? Each must prefer a text to another that is worse without any doubt.

A filter that sees nothing passes every pair, and a judge that must choose drops them all: neither
says anything of the pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from palate.answers import Sample, Samples
from palate.benchmarks import Dataset
from palate.construction.checks.gap import Gaps
from palate.construction.checks.result import Sight
from palate.errors import EndpointError
from palate.evaluation import Work, evaluated
from palate.quality import QualityMetric, build_quality, rate_samples
from palate.records import Judge, Outcome, PreferencePair, Scorer, normal_form
from palate.runs import VerdictRow
from palate.seeding import rng, shuffled
from palate.words import cut_words, is_unspaced, split_words

LEAST = 30
"""Rows that a filter is tried on: at 21 of 30 the lower Wilson end is above ½."""
SHORT = 30
SHUFFLED, SHORTENED, ELSEWHERE = (
    "the words shuffled",
    f"the first {SHORT} words",
    "another question's answer",
)
Filter = Literal["blind", "gap", "rubric"]


def share_won(name: Filter, sees: str, wins: Sequence[bool] | NDArray[np.bool_]) -> Sight:
    """Return the share of rows won with its Wilson interval, which needs 30 rows.

    >>> share_won("gap", "a third user's rubric", [True] * 21 + [False] * 9).finding
    'shown'
    """
    from scipy.stats import binomtest  # slow to import

    n, won = len(wins), int(np.sum(wins))
    low, high = binomtest(won, n).proportion_ci(method="wilson") if n >= LEAST else (None, None)
    return Sight(
        filter=name,
        sees=sees,
        won=won,
        n=n,
        low=None if low is None else float(low),
        high=None if high is None else float(high),
        finding="shown" if low is not None and low > 0.5 else "not shown",
    )


def blind_sights(pairs: Dataset, blind: str | Scorer | Judge, work: Work) -> list[Sight]:
    """Return how often a blind scorer prefers chosen answers to each twin of theirs.

    A judge must prefer them in both orders. The verdicts are an ordinary run, kept under the
    work's root. Raises `EndpointError` where an endpoint did not answer; what came is kept.
    """
    against = twins(pairs, work.settings.seed)
    wins: dict[str, list[bool]] = {SHUFFLED: [], SHORTENED: [], ELSEWHERE: []}
    if against.rows:
        run = evaluated(blind, against, "none", work, progress=work.start(f"{blind} on twins"))
        if run.outages:
            raise EndpointError(
                f"{run.summary.scorer}: {run.outages} of {len(against.rows)} twins got no answer; "
                "what came is kept, run the same command again"
            )
        for row in run.verdicts.rows:
            wins[row.subset].append(_won(row))
    return [share_won("blind", twin, won) for twin, won in wins.items()]


def twins(pairs: Dataset, seed: int) -> Dataset:
    """Return pairs of 30 chosen answers, drawn by the seed, and twins of theirs, one a subset.

    An answer that is its own twin, such as a short one, is passed over for another.
    """
    answers = {normal_form(pair.chosen): pair for pair in shuffled(pairs.pairs, "twins", seed)}
    drawn = list(answers.values())  # of many votes for one answer it is tried once
    others = {
        SHUFFLED: lambda pair: _shuffled(pair.chosen, seed),
        SHORTENED: lambda pair: cut_words(pair.chosen, SHORT),
        ELSEWHERE: lambda pair: _elsewhere(pair, drawn, seed),
    }
    rows = []
    for kind, twin_of in others.items():
        of_kind: list[PreferencePair] = []
        for pair in drawn:
            text = twin_of(pair)
            if text and normal_form(text) != normal_form(pair.chosen):
                changed = {"rejected": text, "subset": kind, "id": f"{pair.id} · {kind}"}
                changed |= {"mirror_of": None, "responses": ()}
                of_kind.append(pair.model_copy(update=changed))
            if len(of_kind) == LEAST:
                break
        rows += of_kind
    name = f"{pairs.name} twins"
    return Dataset(name, tuple(rows), split="all", order_as_in_file=pairs.order_as_in_file)


def _shuffled(text: str, seed: int) -> str:
    between = "" if is_unspaced(text) else " "
    return between.join(shuffled(split_words(text), "words", seed, text))


def _elsewhere(pair: PreferencePair, drawn: Sequence[PreferencePair], seed: int) -> str:
    start = int(rng("elsewhere", seed, pair.id).integers(len(drawn)))
    around = (*drawn[start:], *drawn[:start])
    return next((other.chosen for other in around if other.normal_key != pair.normal_key), "")


def _won(row: VerdictRow) -> bool:
    orders = [order or 0.0 for order in row.orders]
    return row.outcome is Outcome.CHOSEN and all(order > 0 for order in orders)


def adherence_sight(gaps: Gaps) -> Sight:
    """Return how often a chosen answer meets its own user's rubric better than a third user's."""
    chosen = (
        np.stack([gaps.own[:, 0], gaps.third[:, 0, 0]]) if gaps.third.size else np.zeros((2, 0))
    )
    chosen = chosen[:, ~np.isnan(chosen).any(axis=0)]
    return share_won("gap", "a third user's rubric", chosen[0] > chosen[1])


def rubric_sight(pairs: Dataset, adherence: str | QualityMetric, work: Work) -> Sight | None:
    """Return how often the posts that a rubric does not quote meet it better than a third user's.

    As many posts of each, drawn by the seed, are rated as one text; the evidence is left out of
    the rubric. None for a measure that reads no rubric.
    """
    measure = adherence
    if isinstance(measure, str):
        measure = build_quality(measure, work.session, work.settings)
    if "aspects" not in measure.needs:
        return None
    drawn = list(_posts(pairs, work.settings.seed))
    rows = tuple(row for row, _ in drawn)
    wins: Sequence[bool] | NDArray[np.bool_] = []
    if rows:
        samples = Samples(
            pairs.name, tuple(row.id for row in rows), tuple(both for _, both in drawn)
        )
        store, again = work.session.store, work.retry_unscored
        of = replace(pairs, rows=rows)
        start = work.start(f"{measure.spec} of posts")
        values = rate_samples(measure, samples, of, store, start, retry_unscored=again).values
        wins = values[:, 0] > values[:, 1]
    return share_won("rubric", "a third user's posts", wins)


def _posts(pairs: Dataset, seed: int) -> Iterator[tuple[PreferencePair, tuple[Sample, Sample]]]:
    pools = pairs.user_pools(seed)
    for pair in pairs.pairs:
        third = pools[pair.subset].at(pair.id, pair.user_id).stranger("posts")
        quotes = [normal_form(aspect.evidence) for aspect in pair.gold.aspects]
        texts = [(post.text, normal_form(post.text)) for post in pair.profile]
        unquoted = [text for text, form in texts if not any(q and q in form for q in quotes)]
        theirs = [] if third is None else [post.text for post in third.posts]
        n = min(len(unquoted), len(theirs))
        if n and pair.gold.aspects:
            both = (shuffled(posts, "posts", seed, pair.id)[:n] for posts in (unquoted, theirs))
            bare = tuple(a.model_copy(update={"evidence": ""}) for a in pair.gold.aspects)
            gold = pair.gold.model_copy(update={"aspects": bare})
            mine, other = (Sample("\n\n".join(posts)) for posts in both)
            yield pair.model_copy(update={"gold": gold}), (mine, other)
