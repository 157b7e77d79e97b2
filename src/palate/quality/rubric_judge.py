"""A language model as a judge of responses: aspect by aspect of a rubric, or by a released rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from palate.contexts import Writer, build_writer, one_spelling
from palate.engines import Reply, reply_limit
from palate.errors import SpecError
from palate.prompts import (
    Unreadable,
    Wording,
    as_text,
    aspect_prompt,
    parse_numbers,
    prompt_hash,
    titles_prompt,
)
from palate.quality.measure import QualityMetricBase, QualityScore, QuestionResponse, rows_of
from palate.records import Lazy, Messages, Settings
from palate.scorers.judges import MAX_TOKENS, ModelAnswers
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec

RELEASED_EXAMPLE = "rubric-judge:api:MODEL?base_url=https://…/v1&protocol=paper"
LOW, HIGH = 0, 2
RELEASED_MAX_TOKENS = 32
BY_RULE = "0 by the paper's rule"
DEFAULT: dict[str, str | int] = {"verdict": "text", "protocol": "palate", "max_tokens": MAX_TOKENS}


def rubric_judge(spec: Spec, session: Session, settings: Settings) -> RubricJudge | ReleasedJudge:
    """A language model that rates an answer by what the user expects.

    A language model that rates each rubric aspect by itself, or all titles at once.

    The first is the default, the second `?protocol=paper`.

    Raises `SpecError` for options that the judge does not know.
    """
    if spec.choice("protocol", ("palate", "paper"), "palate") == "palate":
        return RubricJudge(spec, session, settings)
    if "verdict" in spec.options:
        raise SpecError(f"{spec}: protocol=paper reads written numbers only; leave out verdict")
    return ReleasedJudge(spec, session, settings)


class RubricJudge(QualityMetricBase):
    """`rubric-judge:LM`: mean over the aspects of rating / 2, each aspect rated 0, 1 or 2.

    An aspect is a question of its own (LaMP-QA, arXiv 2506.00137). `?verdict=text` (the default)
    reads a written rating, `?verdict=json` one that a server holds to a schema, `?verdict=logits`
    takes the mean under the next-token probabilities of the three digits. `?prompt=FILE` asks in a
    file's words. A response with an aspect unread is unscored.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        values = range(LOW, HIGH + 1)
        self.answers = ModelAnswers(spec, session, settings, {"protocol"}, "rating", values)
        verdict, self.form = self.answers.verdict, self.answers.form
        asked = {"form": self.form, "low": LOW, "high": HIGH}
        self.wording = Wording.of("rubric-judge", spec.file("prompt"), **asked)
        info = self.answers.info(f"rubric judge {verdict} {LOW}-{HIGH}", self.wording.hash)
        self.fingerprint = info.fingerprint
        read: dict[str, str | int] = {"verdict": verdict, "protocol": "palate"}
        self.details = {**info.details, "protocol": "palate", "verdict": verdict}
        self.details["scale"] = f"{LOW}-{HIGH}"
        max_tokens = reply_limit(spec, MAX_TOKENS)
        if verdict == "logits":  # one token is read, whatever is allowed
            max_tokens = MAX_TOKENS
        else:
            self.details["max_tokens"] = max_tokens
        self.spec = one_spelling(spec, {**read, "max_tokens": max_tokens}, DEFAULT)

    def prompts(self, item: QuestionResponse) -> list[str]:
        """Return what the model reads, one text per aspect."""
        return [self.answers.text(messages) for messages in self._prompts(item)]

    def asked_afresh(self) -> AbstractContextManager[None]:
        """Ask for what a cache of replies holds as well, for a while."""
        return self.answers.model.asked_afresh()

    def _prompts(self, item: QuestionResponse) -> list[Messages]:
        text, gold = as_text(item.question.messages), item.question.gold
        return [
            aspect_prompt(text, gold.narrative, item.response, aspect, self.form, self.wording)
            for aspect in gold.aspects
        ]

    def _read(self, item: QuestionResponse) -> tuple[object, ...]:
        gold = item.question.gold
        return (item.question.key, gold.narrative, gold.aspects, item.response)

    def _rated(self, items: Sequence[QuestionResponse]) -> Iterator[tuple[int, QualityScore]]:
        groups = Lazy(len(items), lambda k: self._prompts(items[k]))
        for k, answers in self.answers.of(groups):
            yield k, _mean(self.answers, answers)


def _mean(reader: ModelAnswers, answers: Sequence[Reply]) -> QualityScore:
    values: list[float] = []
    aspects: list[float | None] = []
    unread: list[str] = []
    for answer in answers:
        try:
            values.append(reader.rating(answer, LOW, HIGH) / HIGH)
            aspects.append(values[-1])
        except Unreadable as error:
            aspects.append(None)
            unread.append(str(error))
    texts = tuple(answer.text or None for answer in answers)
    reason = None
    if unread:
        why = "; ".join(dict.fromkeys(unread))
        reason = f"{len(unread)} of {len(answers)} aspects unread: {why}"
    return QualityScore(
        value=None if unread else sum(values) / len(values),
        aspects=tuple(aspects),
        reason=reason,
        raw=texts if any(texts) else (),
        outage=any(answer.outage for answer in answers),
    )


class ReleasedJudge(QualityMetricBase):
    """`rubric-judge:LM?protocol=paper`: one call per response, on the titles of all its aspects.

    The value is half the mean of every number in the reply, at most 1, and 0 where there is none:
    neither how many numbers nor their scale is checked. Nothing is asked twice, empty responses
    are asked about, and only a request without a reply leaves a response unscored.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        max_tokens = reply_limit(spec, RELEASED_MAX_TOKENS)
        options = {**spec.options, "max_tokens": str(max_tokens)}
        complete = spec.model_copy(update={"options": options})
        known = {"protocol", "max_tokens"}
        self.writer: Writer = build_writer(complete, session, settings, RELEASED_EXAMPLE, known)
        template = prompt_hash("titles.jinja")
        read: dict[str, str | int] = {"protocol": "paper", "max_tokens": max_tokens}
        self.spec = one_spelling(spec, read, {"max_tokens": RELEASED_MAX_TOKENS})
        self.fingerprint = digest("released judge", self.writer.fingerprint, template)
        self.details = {
            "reference": str(Reference.parse(spec.need_reference(RELEASED_EXAMPLE))),
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
