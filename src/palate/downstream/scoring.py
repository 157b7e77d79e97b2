"""Scores of all N answers to every row: by the same passes that score a benchmark's pairs.

Answers go in couples, so that a run of any scorer is made of rows of two, and slates that share
their prompt become one wide slate: what N answers share is read once. A judge compares every two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import PairSet
from palate.contexts import build_context
from palate.downstream.samples import Samples
from palate.errors import EndpointError, UsageError
from palate.evaluation import (
    Computation,
    Options,
    Progress,
    adapt_to,
    make_rows,
    meaningless,
    need_choices,
    refuse,
    shown_by,
    spec_of,
    whose_state,
)
from palate.evaluation.rows import Rows
from palate.execution import Results, build_runner
from palate.records import Judge, Scores, Slate, Term, read_by, terms_of, traits_of
from palate.runs import Identity, Journal
from palate.scorers import build_scorer

Doubles = NDArray[np.float64]
FOLDER = "samples"


@dataclass(frozen=True)
class SampleScores:
    """What one scorer under one context makes of the samples."""

    scorer: str
    context: str
    oracle: bool
    values: Doubles
    """rows × N; NaN where unscored. An empty answer is below all others of its row that have a
    score: nobody would hand it out."""
    reasons: dict[str, int]
    """Why samples are unscored."""
    notes: tuple[str, ...]
    folder: Path | None


class SampledRows:
    """Each row's distinct answers in couples; of a judge, every two."""

    def __init__(
        self, rows: Rows, samples: Samples, *, every_two: bool, terms: Sequence[Term] = ()
    ) -> None:
        self.rows, self._terms = rows, () if every_two else terms
        self._last: tuple[int, Slate] | None = None
        self.texts: list[list[str]] = [
            list(dict.fromkeys(one.text for one in own if one.text.strip()))
            for own in samples.of_row
        ]
        self.couples: list[tuple[int, int, int]] = [
            (row, i, j)
            for row, texts in enumerate(self.texts)
            for i, j in (
                combinations(range(len(texts)), 2)
                if every_two and len(texts) > 1
                else _side_by_side(0 if every_two else len(texts))
            )
        ]

    def __len__(self) -> int:
        return len(self.couples)

    def prepare(self) -> None:
        """Let the context do at once what would be costly row by row."""
        self.rows.prepare()

    def id(self, row: int) -> str:
        """Return the benchmark row's id, and which of its answers."""
        at, i, j = self.couples[row]
        return f"{self.rows.id(at)}#{i},{j}"

    def slate(self, row: int) -> Slate:
        """Return the benchmark row's slate with two of the answers as candidates.

        What is shown is cut to the window beside the longest of all the row's answers, so that all
        are scored after the same text.
        """
        at = self.couples[row][0]
        if self._last is None or self._last[0] != at:
            whole = self.rows.slate(at)
            for term in self._terms:
                if not term.blind and len(self.texts[at]) > 1:
                    shown = whole.replace(candidates=tuple(self.texts[at]))
                    whole = whole.replace(shown=read_by(term.contestant, shown).shown)
            self._last = at, whole
        return self._last[1].replace(candidates=self.candidates(row))

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the two answers."""
        at, i, j = self.couples[row]
        return self.texts[at][i], self.texts[at][j]


def _side_by_side(n: int) -> Iterator[tuple[int, int]]:
    yield from ((k, k + 1) for k in range(0, n - 1, 2))
    if n % 2:
        yield (n - 1, 0)  # of one text alone, twice the same


def plan_cells(
    scorers: Sequence[str], contexts: Sequence[str], pairs: PairSet, options: Options
) -> list[tuple[str, str]]:
    """Return the cells to score, (scorer, context); those without a meaning are left out.

    Every spec is built, and so checked, before anything is drawn or scored.

    Raises:
        UsageError: where no cell is left, or one is asked for that makes no sense.
    """
    shown = [build_context(text, options.settings) for text in dict.fromkeys(contexts)]
    found = []
    for text in dict.fromkeys(scorers):
        contestant = build_scorer(text, options.settings)
        spec = spec_of(contestant, text)
        need_choices(contestant, pairs, spec)
        traits = traits_of(contestant, spec)
        for context in shown:
            if not meaningless(traits, context):
                refuse(traits, context, spec)
                found.append((text, context.spec))
    if not found:
        raise UsageError("best-of-n: no scorer has a meaning under these contexts (add -c profile)")
    return found


def score_samples(
    scorer: str,
    samples: Samples,
    pairs: PairSet,
    context: str = "none",
    *,
    root: Path | None = Path("runs"),
    options: Options | None = None,
    progress: Progress | None = None,
) -> SampleScores:
    """Return the scores of every sample by one scorer under one context.

    What is finished is not computed again: results are kept under `root` as those of `evaluate`
    are. A judge's score is the mean of its margins against the row's other answers.

    Raises `UsageError` for a scorer that makes no sense under this context, `EndpointError` where
    an endpoint did not answer, and what building and running a scorer raises.
    """
    options = options or Options()
    settings = options.settings
    contestant = build_scorer(scorer, settings)
    spec = spec_of(contestant, scorer)
    shown = build_context(context, settings)
    adapted = adapt_to(contestant, pairs, spec)
    built_from = scorer if adapted is contestant else None
    contestant, traits = adapted, traits_of(adapted, spec)
    refuse(traits, shown, spec)
    if samples.rows != tuple(pair.id for pair in pairs.pairs):
        raise UsageError(f"{samples.policy}: samples of other rows than those of {pairs.name}")
    whose = whose_state(contestant, traits, pairs, settings.seed)
    rows = make_rows(pairs, shown, seed=settings.seed, whose=whose)
    sampled = SampledRows(
        rows, samples, every_two=isinstance(contestant, Judge), terms=terms_of(contestant)
    )
    work = Computation(contestant, spec, sampled, options, built_from)
    folder = None
    with ExitStack() as stack:
        journal = None
        if root is not None:
            details = work.details[0]
            identity = Identity(
                benchmark=f"{pairs.name} {FOLDER}", scorer=spec, context=shown.spec,
                rows=samples.content, revision=pairs.content_hash, fingerprints=work.fingerprints,
                protocol=traits.protocol, split=pairs.split, shown_by=shown_by(shown, pairs),
                seed=settings.seed, dtype=details.get("dtype"), device=details.get("device"),
                batch_tokens=settings.batch_tokens,
            )  # fmt: skip
            folder = identity.folder(root)
            journal = stack.enter_context(Journal(folder / "journal.jsonl"))
            work.manifest(identity).write(folder)
        runner = build_runner(options.engine)
        passes = work.run(journal, root, runner, progress or (lambda done, total: None))
    lost = int(sum(one.outages.sum() for one in passes))
    if lost:
        raise EndpointError(
            f"{spec}: {lost} answers were not scored (the endpoint did not answer, or the cost cap "
            "is reached); what came is kept, run the same command again"
        )
    values, reasons = _gather(work, sampled, samples, passes)
    notes = [note for one in (contestant, shown) for note in getattr(one, "notes", tuple)()]
    return SampleScores(
        scorer=spec, context=shown.spec, oracle=shown.oracle, values=values, reasons=reasons,
        notes=(*traits.notes, *notes), folder=folder,
    )  # fmt: skip


def _gather(
    work: Computation, sampled: SampledRows, samples: Samples, passes: Sequence[Results]
) -> tuple[Doubles, dict[str, int]]:
    judged = isinstance(work.contestant, Judge)
    needs_shown = work.traits_of(work.terms[0]).needs_shown
    combine = getattr(work.contestant, "combine", None)
    by_text: list[dict[str, list[float]]] = [{} for _ in sampled.texts]
    why: list[dict[str, str]] = [{} for _ in sampled.texts]
    for k, (row, i, j) in enumerate(sampled.couples):
        ours, theirs = sampled.texts[row][i], sampled.texts[row][j]
        found = [one[k] for one in passes]
        if needs_shown and not (sampled.rows.parts[row] and found[0].parts):
            why[row][ours] = why[row][theirs] = "nothing shown"
            continue
        if judged:
            read = [value for value in found[0].values if value is not None]
            if len(read) < len(found[0].values):
                said = found[0].reasons[0] if found[0].reasons else None
                why[row][ours] = why[row][theirs] = said or "no judgement"
                continue
            margin = sum(read) / len(read)
            by_text[row].setdefault(ours, []).append(margin)
            by_text[row].setdefault(theirs, []).append(-margin)
            continue
        parts = [Scores(values=one.values, reasons=one.reasons) for one in found]
        scores = combine(parts) if combine is not None else parts[0]
        for at, (text, value) in enumerate(zip((ours, theirs), scores.values, strict=True)):
            if value is None:
                why[row][text] = scores.reason(at) or "no score"
            else:
                by_text[row].setdefault(text, []).append(value)
    return _table(sampled, samples, by_text, why, judged=judged)


def _table(
    sampled: SampledRows,
    samples: Samples,
    by_text: Sequence[dict[str, list[float]]],
    why: Sequence[dict[str, str]],
    *,
    judged: bool,
) -> tuple[Doubles, dict[str, int]]:
    values = np.full((len(samples.rows), samples.n), np.nan)
    reasons: dict[str, int] = {}
    for row, own in enumerate(samples.of_row):
        means = {text: float(np.float32(np.mean(said))) for text, said in by_text[row].items()
                 if judged or text not in why[row]}  # fmt: skip
        if judged and len(sampled.texts[row]) == 1:
            means = {sampled.texts[row][0]: 0.0}  # nothing to compare it with
        least = min(means.values(), default=0.0)
        lowest = least - max(1.0, abs(least))
        for at, one in enumerate(own):
            if not one.text.strip() and means:
                values[row, at] = lowest
            elif one.text in means:
                values[row, at] = means[one.text]
            else:
                empty = "empty, and no other answer of the row has a score"
                reason = why[row].get(one.text, "no score" if one.text.strip() else empty)
                reasons[reason] = reasons.get(reason, 0) + 1
    return values, reasons
