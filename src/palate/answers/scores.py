"""Scores of all N answers to every row: by the same passes that score a benchmark's pairs.

What N answers to a question share is read once; a judge compares every two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from palate.answers.drawing import refuse_draws
from palate.answers.samples import Samples
from palate.benchmarks import Dataset
from palate.contexts.rows import ContextRows, SampledRows
from palate.errors import UsageError
from palate.evaluation import (
    BoundScorer,
    Progress,
    Work,
    combined,
    judgements,
    need_choices,
    need_replies,
    not_applicable,
    refuse,
    spec_of,
    unscored_reason,
    with_rows,
)
from palate.execution import Results
from palate.records import Judgement, Record, Scorer, Scores, Slate, each_result, info_of
from palate.runs import RecordResult, TextHash, VerdictRow

NOTHING_SHOWN = "nothing shown"
NO_OPPONENT = "no other answer of the row that a judge could compare it with"
EMPTY = "empty, and no other answer of the row has a score"
ScoreOrReason = float | str
FIELDS = ("id", "context", "key", "responses", "scores", "reasons")


def plan_cells(
    scorers: Sequence[str],
    contexts: Sequence[str],
    pairs: Dataset,
    work: Work,
    command: str = "best-of-n",
) -> list[tuple[str, str]]:
    """Return the cells to score, (scorer, context); those without a meaning are left out.

    Every spec is built, and so checked, before anything is drawn or scored. Raises `UsageError`
    where no cell is left, or one is asked for that makes no sense.
    """
    built = [work.context(text) for text in dict.fromkeys(contexts)]
    cells = []
    for context in built:
        refuse_draws(context, context.spec, command)
    for text in dict.fromkeys(scorers):
        scorer = work.scorer(text)
        refuse_draws(scorer, text, command)
        spec = spec_of(scorer, text)
        need_choices(scorer, pairs, spec)
        info = info_of(scorer, spec)
        for context in built:
            if not not_applicable(info, context):
                refuse(info, context, spec)
                cells.append((text, context.spec))
    if not cells:
        problem = "no scorer has a meaning under these contexts (add -c profile)"
        raise UsageError(f"{command}: {problem}")
    return cells


def score_samples(
    scorer: str | Scorer,
    samples: Samples,
    pairs: Dataset,
    context: str,
    work: Work,
    progress: Progress | None = None,
) -> SampleScores:
    """Return the scores of every sample by one scorer under one context.

    What is finished is not computed again: results are kept under the work's root, as those of
    `evaluate` are. A judge's score is the mean of its margins against the row's other answers that
    have one. Raises `UsageError` for a scorer that makes no sense under this context,
    `EndpointError` where an endpoint did not answer, and what building and running a scorer raises.
    """
    job = BoundScorer.of(scorer, pairs, context, work, name=getattr(scorer, "spec", None))
    spec = job.spec
    if job.info.pairs_only and samples.n == 1:
        raise UsageError(f"{spec}: a judge compares two answers; draw more than one (-n)")
    if samples.rows != tuple(row.id for row in pairs.rows):
        raise UsageError(f"{samples.policy}: samples of other rows than those of {pairs.name}")
    sampled, name = TextRows(job.rows, samples.texts), f"{spec} {job.context.spec}"
    identity = {"rows": samples.content, "revision": pairs.content_hash, "name": name}
    computed = job.computed(sampled, SampleScores.kind, progress, identity)
    with computed as (computation, passes, folder):
        need_replies(spec, passes, "answers")
        scored = _rows(pairs, samples, _gathered(job, sampled, samples, passes))
        summary = ScoresSummary(
            benchmark=pairs.name,
            scorer=spec,
            context=job.context.spec,
            oracle=job.context.oracle or getattr(job.scorer, "oracle", False),
            models=computation.models,
            fingerprints=computation.fingerprints,
            policy=samples.policy,
            samples=samples.content,
            n_rows=len(scored),
            n_samples=samples.n,
            unscored_reasons=Counter(why for row in scored for why in row.reasons if why),
            notes=job.notes,
        )
        result = SampleScores(summary, scored, folder)
        if folder is not None:
            result.save()
    return result


class ScoresSummary(Record):
    """What was scored, by what, and what has no score."""

    benchmark: str
    scorer: str
    context: str
    oracle: bool
    models: tuple[str, ...]
    """What the numbers come from: content hashes of model folders, names of served models."""
    fingerprints: tuple[str, ...]
    """Of each computation: all that its numbers depend on beside the rows."""
    policy: str
    samples: str
    """Content hash of the samples."""
    n_rows: int
    n_samples: int
    """Of each row."""
    unscored_reasons: dict[str, int]
    """How often each reason left a sample unscored."""
    notes: tuple[str, ...]


class ScoreRow(Record):
    """The scores of one row's samples."""

    id: str
    content_hash: str
    """Of question and responses, as in a run."""
    question_hash: TextHash
    user: str
    sample_hashes: tuple[TextHash, ...]
    scores: tuple[float | None, ...]
    """An empty answer is below all others of its row that have a score."""
    reasons: tuple[str | None, ...]
    """Why a sample has no score."""


class SampleScores(RecordResult[ScoresSummary, ScoreRow]):
    """The scores of all samples by one scorer under one context."""

    kind: ClassVar[str] = "scores"
    content_type, row_type = ScoresSummary, ScoreRow

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Scores, rows × samples; NaN where unscored."""
        return np.array([row.scores for row in self.rows], dtype=np.float64)


class TextRows(SampledRows):
    """Each row with texts as its candidates, such as answers that were drawn."""

    def __init__(self, rows: ContextRows, texts: Sequence[tuple[str, ...]]) -> None:
        super().__init__(rows, range(len(texts)))
        self.rows, self.texts = rows, texts

    def prepare(self) -> None:
        """Let the context do at once what would be costly row by row."""
        self.rows.prepare()

    def slate(self, row: int) -> Slate:
        """Return the benchmark row's slate with the answers as candidates."""
        return super().slate(row).replace(candidates=self.texts[row])

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the answers."""
        return self.texts[row]


def _rows(
    pairs: Dataset, samples: Samples, scores: Sequence[Sequence[float | str]]
) -> tuple[ScoreRow, ...]:
    return tuple(
        ScoreRow(
            id=row.id,
            content_hash=row.content,
            question_hash=VerdictRow.hash_of(row.normal_key),
            user=row.user_id,
            sample_hashes=tuple(VerdictRow.hash_of(sample.text) for sample in drawn),
            scores=tuple(None if isinstance(each, str) else each for each in of_row),
            reasons=tuple(each if isinstance(each, str) else None for each in of_row),
        )
        for row, drawn, of_row in zip(pairs.rows, samples.of_row, scores, strict=True)
    )


def _gathered(
    job: BoundScorer, sampled: TextRows, samples: Samples, passes: Sequence[Results]
) -> list[list[float | str]]:
    """Return the score of every sample, or why it has none (rows × N).

    An empty answer is below all others of its row that have a score; empty answers alone tie.
    """
    rows = []
    for row, listed in enumerate(samples.of_row):
        texts = sampled.texts[row]
        if reason := unscored_reason(job, row, passes, row):
            scored: dict[str, ScoreOrReason] = dict.fromkeys(texts, reason)
        elif job.judges:
            scored = _compared(texts, judgements(job, passes, row))
        else:
            scored = by_text(combined(job, passes, row), texts)
        known = [value for value in scored.values() if not isinstance(value, str)]
        lowest: float | str = 0.0 if not texts else EMPTY
        if known:
            lowest = min(known) - max(1.0, abs(min(known)))
        rows.append([scored.get(s.text, "no score") if s.text.strip() else lowest for s in listed])
    return rows


def _compared(texts: Sequence[str], judgements: Sequence[Judgement]) -> dict[str, ScoreOrReason]:
    """Return each text's mean margin against the others that have a score.

    A mean over whatever happened to be read would hold texts to different opponents. So the texts
    with the most unread comparisons go, all that share that number, until every comparison among
    those left was read: one text that a judge cannot read costs no other text its score.
    """
    if len(texts) == 1:
        return {texts[0]: 0.0}  # nothing to compare it with
    margins = np.zeros((len(texts), len(texts)))
    why: dict[tuple[int, int], str] = {}
    both = combinations(range(len(texts)), 2)
    for (i, j), judgement in zip(both, judgements, strict=True):
        if judgement.margin is None:
            why[i, j] = judgement.reason or "no judgement"
        else:
            margins[i, j], margins[j, i] = judgement.margin, -judgement.margin
    unread = np.zeros((len(texts), len(texts)), dtype=bool)
    for i, j in why:
        unread[i, j] = unread[j, i] = True
    left = np.ones(len(texts), dtype=bool)
    while (counts := (unread & left).sum(axis=1) * left).any():
        left &= counts < counts.max()
    shares: dict[str, ScoreOrReason] = {}
    for k, text in enumerate(texts):
        if left[k] and left.sum() > 1:
            others = margins[k, left & (np.arange(len(texts)) != k)]
            shares[text] = _read(float(np.mean(others)), None)
        else:
            reasons = (reason for couple, reason in why.items() if k in couple)
            shares[text] = next(reasons, NO_OPPONENT)
    return shares


def score_texts(
    scorer: Scorer, slates: Sequence[Slate], texts: Sequence[Iterable[str]]
) -> list[dict[str, ScoreOrReason]]:
    """Return the float32 score of each text under its slate, or why it has none.

    The texts of one slate are candidates of one call, each once; blank ones are left out. What the
    scorer raises passes.

    >>> from palate.records import Message, Settings
    >>> from palate.scorers import build_scorer
    >>> from palate.session import default_session
    >>> longest = build_scorer("longest", default_session(), Settings())
    >>> slate = Slate(question=(Message(role="user", content="Tea?"),), candidates=())
    >>> score_texts(longest, [slate], [["Yes, please.", " ", "Yes, please."]])
    [{'Yes, please.': 12.0}]
    """
    by_slate = [tuple(dict.fromkeys(text for text in of if text.strip())) for of in texts]
    places = [k for k, of in enumerate(by_slate) if of]
    scored: list[dict[str, ScoreOrReason]] = [{} for _ in slates]
    if not places:
        return scored
    wide = [slates[k].replace(candidates=by_slate[k]) for k in places]
    scored_wide = each_result(scorer.score(wide), Scores, f"{type(scorer).__name__}.score")
    for at, scores in scored_wide:
        scored[places[at]] = by_text(scores, by_slate[places[at]])
    return scored


def by_text(scores: Scores, texts: Sequence[str]) -> dict[str, ScoreOrReason]:
    """Return the float32 score of each text, or why it has none.

    >>> by_text(Scores(values=(0.5, None), reasons=(None, "too long")), ["Tea.", "Tea. Tea."])
    {'Tea.': 0.5, 'Tea. Tea.': 'too long'}
    """
    return {
        text: _read(value, scores.reason(n))
        for n, (text, value) in enumerate(zip(texts, scores.values, strict=True))
    }


def _read(value: float | None, reason: str | None) -> ScoreOrReason:
    if value is None:
        return reason or "no score"
    single = float(np.float32(value))
    return single if np.isfinite(single) else "not a finite number"


def need_scores(job: BoundScorer) -> None:
    """Raise `UsageError` for a scorer that does not give a prompt's response one number."""
    if job.judges or job.info.pairs_only:
        raise UsageError(f"{job.spec}: a judge compares two responses and scores none alone")
    if job.info.needs_user:
        raise UsageError(
            f"{job.spec}: keeps a state for each user, and a line's key does not say whose; "
            "palate evaluate tells its states apart"
        )


def response_lines(job: BoundScorer) -> Iterator[dict[str, Any]]:
    """Yield a line of each row: decided rows and questions, then rows that their users call ties.

    `key` is the hash of the prompt as the context gives it, before any cut to a model's window.
    Raises `EndpointError` where an endpoint did not answer.
    """
    yield from _lines(job)
    rated = job.pairs.undecided_to_rate  # apart, since `palate evaluate` shows them other strangers
    ids = {row.id for row in rated}
    others = (row for row in (*job.pairs.undecided, *job.pairs.unrated) if row.id not in ids)
    for ties in (rated, tuple(others)):
        if ties:
            yield from _lines(with_rows(job, ties))


def _lines(job: BoundScorer) -> Iterator[dict[str, Any]]:
    rows, name = job.rows, f"{job.spec} {job.context.spec}"
    asked = (rows.questions[row // rows.draws] for row in range(len(rows)))
    wide = TextRows(rows, [question.view.responses for question in asked])
    identity = {"rows": job.pairs.content_hash, "revision": job.pairs.revision, "name": name}
    progress = job.work.start(name)
    with job.computed(wide, "responses", progress, identity) as (_, passes, _):
        need_replies(job.spec, passes, "rows")
        for row, texts in enumerate(wide.texts):
            why = unscored_reason(job, row, passes, row)
            scores = Scores.unscored(len(texts), why) if why else combined(job, passes, row)
            values = [None if it is None or not math.isfinite(it) else it for it in scores.values]
            reasons = [
                None if value is not None else scores.reason(k) or "no score"
                for k, value in enumerate(values)
            ]
            key = rows.slate(row).prompt_key
            line = rows.id(row), job.context.spec, key, list(texts), values, reasons
            yield dict(zip(FIELDS, line, strict=True))
