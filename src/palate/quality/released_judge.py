"""The judge of Personalized RewardBench's released best-of-n scripts, by its own rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from palate.contexts.options import one_spelling
from palate.contexts.writers import Writer, build_writer
from palate.engines import Reply
from palate.prompts import Unreadable, as_text, parse_numbers, prompt_hash, titles_prompt
from palate.quality.metric_base import QualityMetricBase, rows_of
from palate.quality.protocol import QualityScore, QuestionResponse
from palate.records import Settings
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec

EXAMPLE = "rubric-judge:api:MODEL?base_url=https://…/v1&protocol=paper"
HIGH = 2
MAX_TOKENS = 32
BY_RULE = "0 by the paper's rule"


class ReleasedJudge(QualityMetricBase):
    """`rubric-judge:LM?protocol=paper`: one call per response, on the titles of all its aspects.

    The value is half the mean of every number in the reply, at most 1, and 0 where there is none:
    neither how many numbers nor their scale is checked. Nothing is asked twice, empty responses
    are asked about, and only a request without a reply leaves a response unscored.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        max_tokens = spec.number("max_tokens", MAX_TOKENS, least=1)
        options = {**spec.options, "max_tokens": str(max_tokens)}
        self.writer: Writer = build_writer(
            spec.model_copy(update={"options": options}),
            session,
            settings,
            EXAMPLE,
            {"protocol", "max_tokens"},
        )
        template = prompt_hash("titles.jinja")
        read: dict[str, str | int] = {"protocol": "paper", "max_tokens": max_tokens}
        self.spec = one_spelling(spec, read, {"max_tokens": MAX_TOKENS})
        self.fingerprint = digest("released judge", self.writer.fingerprint, template)
        self.details = {
            "reference": str(Reference.parse(spec.need_reference(EXAMPLE))),
            "base_url": self.writer.model.details.get("base_url"),
            "writer": self.writer.fingerprint,
            "prompt": template,
            **read,
        }

    def rate(self, items: Sequence[QuestionResponse]) -> Iterator[tuple[int, QualityScore]]:
        """Yield ratings as they come, empty responses no exception."""
        self.check(rows_of(items))
        return self._once(items)

    def asked_afresh(self) -> AbstractContextManager[None]:
        """Ask for what a cache of replies holds as well, for a while."""
        return self.writer.model.asked_afresh()

    def _read(self, item: QuestionResponse) -> tuple[object, ...]:
        return (item.question.key, _titles(item), item.response)

    def _rated(self, items: Sequence[QuestionResponse]) -> Iterator[tuple[int, QualityScore]]:
        prompts = [
            titles_prompt(as_text(item.question.messages), item.response, _titles(item))
            for item in items
        ]
        for k, reply in self.writer.write(prompts):
            yield k, _by_rule(reply)


def _titles(item: QuestionResponse) -> tuple[str, ...]:
    return tuple(aspect.aspect for aspect in item.question.gold.aspects)


def _by_rule(reply: Reply) -> QualityScore:
    if reply.outage or reply.refusal is not None:
        why = reply.failure or "no answer"
        return QualityScore(value=None, reason=why, outage=reply.outage)
    raw = (reply.text,) if reply.text else ()
    try:
        if reply.failure is not None:
            raise Unreadable(reply.failure)
        numbers = parse_numbers(reply.text)
    except Unreadable as error:
        return QualityScore(value=0.0, reason=f"{BY_RULE}: {error}", raw=raw)
    mean = sum(numbers) / len(numbers)
    reason = None
    if mean > HIGH:
        reason = f"the numbers' mean, {mean:g}, is above {HIGH} and counts as {HIGH}"
    return QualityScore(value=min(mean, HIGH) / HIGH, reason=reason, raw=raw)
