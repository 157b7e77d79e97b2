"""Filters held to what they see, to what needs no user, and to where scorers stand on the pairs.

Each filter must prefer a text to another that is worse without any doubt. One that sees nothing
passes every pair, and a judge that must choose drops them all: neither says anything of the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from palate.answers import Sample, Samples
from palate.benchmarks import Dataset
from palate.comparison import Grid, findings_of
from palate.construction.audit_records import BlindFinding, Sight, Standing
from palate.construction.gap import Gaps
from palate.embeddings import build_features, plain_item, style_of
from palate.errors import EndpointError
from palate.evaluation import Work, evaluated
from palate.learning import Choices
from palate.learning.choices import FOLDS, folds
from palate.learning.heads import fit_head
from palate.metrics import Ceilings, Clusters, Estimate, accuracy, equivalence
from palate.metrics.arrays import FloatArray, id_codes
from palate.quality import QualityMetric, rate_samples
from palate.records import Judge, Outcome, PreferencePair, Scorer, normal_form
from palate.runs import ReportedEstimate, VerdictRow
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
    verdicts = blind_verdicts(blind, against, work, blind, "twins") if against.rows else ()
    wins: dict[str, list[bool]] = {SHUFFLED: [], SHORTENED: [], ELSEWHERE: []}
    for row in verdicts:
        in_both_orders = all((order or 0) > 0 for order in row.orders)
        wins[row.subset].append(row.outcome is Outcome.CHOSEN and in_both_orders)
    return [share_won("blind", twin, won) for twin, won in wins.items()]


def blind_verdicts(
    blind: str | Scorer | Judge, pairs: Dataset, work: Work, spec: str, what: str
) -> Sequence[VerdictRow]:
    """Return the verdicts of a scorer that is shown nothing, an ordinary run.

    Raises `EndpointError` where an endpoint did not answer; what came is kept.
    """
    run = evaluated(blind, pairs, "none", work, progress=work.start(f"{spec}, {what}"))
    if run.outages:
        rows = "twins" if what == "twins" else "rows"
        raise EndpointError(
            f"{spec}: {run.outages} of {len(pairs.rows)} {rows} got no answer; what came is kept, "
            "run the same command again"
        )
    return run.verdicts.rows


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
        other = ((p, text) for p, text in texts if normal_form(text) != normal_form(p.chosen))
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


MOST = 20_000
"""Test rows that the probe reads: the first so many."""
RIDGE, WARN_ABOVE = 1.0, 0.6
PROBE = "style probe"


def without_user(
    pairs: Dataset, embedder: str | None, work: Work
) -> tuple[tuple[BlindFinding, ...], Ceilings]:
    """Return how often length and style tell the chosen answer, against ½; and the ceilings.

    `longest` and `shortest` are ordinary runs; a probe is fitted on the other questions, to counts
    of style, and to an embedder's vectors beside them. Clustered as in `evaluate`. None are needed
    where all rows are mirrored: there each is at ½ by law.
    """
    if pairs.mirrored:
        return (), Ceilings(len(pairs.couples), len(pairs.rows), 0, blind=(0.5, 0.5))
    runs = {name: evaluated(name, pairs, "none", work) for name in ("longest", "shortest")}
    values = {name: run.verdicts.values for name, run in runs.items()}
    values[PROBE] = _probed(pairs, ["style"], work)
    if embedder:
        values[f"style and {embedder}"] = _probed(pairs, ["style", embedder], work)
    clusters = runs["longest"].verdicts.clusters
    findings = []
    for scorer, right in values.items():
        estimate = accuracy(right, clusters.take(np.arange(len(right))))
        tested = equivalence(estimate)
        figure, words = ReportedEstimate.of(estimate), tested.words("pairs")
        finding = {"finding": tested.finding, "p": tested.p, "words": words}
        findings.append(BlindFinding(scorer=scorer, accuracy=figure, **finding))
    best = replace(runs["longest"].verdicts.ceilings, accuracy=None, captured=None)
    if pairs.agreed:
        best = Ceilings(0, 0, 0, note="no ceilings: the pairs were chosen by their votes")
    return tuple(findings), best


def _probed(pairs: Dataset, sources: list[str], work: Work) -> FloatArray:
    rows = pairs.pairs[:MOST]
    items = [plain_item(p.messages, text) for p in rows for text in (p.chosen, p.rejected)]
    features = build_features(sources, work.session, work.settings)
    table = features.table(items, work.start(" and ".join(sources)))
    sides = table.reshape(len(rows), 2, -1)
    # Where a text is too long for a model, its vector tells nothing.
    sides[np.broadcast_to(np.isnan(sides).any(axis=1, keepdims=True), sides.shape)] = 0
    users, _ = id_codes([pair.user_id for pair in rows])
    questions, _ = id_codes([pair.normal_key for pair in rows])
    return probe(sides, users, questions, work.settings.seed)


def standings_of(grid: Grid) -> tuple[Standing, ...]:
    """Return each scorer's finding, with its accuracy under nothing, posts and a stranger's."""
    standings = []
    for finding in findings_of(grid):
        runs = finding.nothing, finding.own_run, finding.stranger
        fields = {name: getattr(finding, name) for name in ("scorer", "context", "identity")}
        fields["accuracy"] = tuple(run and run.summary.accuracy for run in runs)
        reached = finding.run.verdicts.ceilings
        fields |= {"on_shared_pairs": reached.accuracy, "captured": reached.captured}
        standings.append(Standing(**fields, finding=finding.word))
    return tuple(standings)


def accuracies_of(rows: Iterable[Mapping[str, Any]], seed: int) -> dict[str, Estimate]:
    """Return the accuracy of each blind scorer, clustered by user and question.

    Rows are read one by one; what is held of each are numbers.
    """
    user_codes: dict[str, int] = {}
    question_codes: dict[str, int] = {}
    styles: list[tuple[Any, Any]] = []
    apart, codes = [], []
    for row in rows:
        chosen, rejected = row["chosen"], row["rejected"]
        apart.append(len(chosen) - len(rejected))
        user = user_codes.setdefault(row["user_id"], len(user_codes))
        codes.append((user, question_codes.setdefault(row["question"], len(question_codes))))
        if len(styles) < MOST:
            styles.append((style_of(chosen), style_of(rejected)))
    longer = 0.5 + 0.5 * np.sign(np.array(apart))
    users, questions = np.array(codes).T
    clusters, n = Clusters.of(users.tolist(), questions=questions.tolist()), len(styles)
    probed = probe(np.array(styles), users[:n], questions[:n], seed)
    return {
        "longest": accuracy(longer, clusters),
        "shortest": accuracy(1 - longer, clusters),
        PROBE: accuracy(probed, clusters.take(np.arange(n))),
    }


def probe(
    sides: NDArray[Any], users: NDArray[Any], questions: NDArray[Any], seed: int
) -> NDArray[np.float64]:
    """Return 1, ½ or 0 a row by a Bradley-Terry head, each question held out from its own fit.

    `sides` holds what is read of chosen and rejected (n × 2 × d); users and questions are codes.
    """
    n = len(sides)
    choices = Choices(
        np.concatenate([sides[:, 0], sides[:, 1]]),
        users,
        np.arange(n),
        np.arange(n, 2 * n),
        users=int(users.max()) + 1,
        question=np.tile(questions, 2),
    )
    fold = folds(choices, FOLDS, rng("blind", seed))
    margins = np.zeros(n)
    for k in range(FOLDS):
        tested, fitted = choices.take(fold == k), choices.take(fold != k)
        if len(tested) and len(fitted):
            margins[fold == k] = tested.differences @ fit_head(fitted, RIDGE)
    return 0.5 + 0.5 * np.sign(margins)
