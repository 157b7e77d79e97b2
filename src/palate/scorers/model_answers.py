"""A language model's answers to a judge's prompts: a text, or the logits of a few labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from palate.engines import LanguageModel, Reader, Reply
from palate.engines.language_model import Ids, Messages, is_conversation
from palate.records import Encoded, Lazy, Prepared, ScorerInfo, Settings, Slate
from palate.scorers.fitting import fit_slate
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec

MAX_TOKENS = 512
"""Tokens of a reply, unless `?max_tokens=` says otherwise."""
LARGER = 4
"""A reply that was cut off is asked for once more with this many times the tokens."""

Group = Sequence[Messages | Ids]
"""Prompts that begin alike, such as the two orders of a pair; as token ids where they are known."""
Prompts = Callable[[Slate], Sequence[Messages]]


class ModelAnswers:
    """A language model, how much it may write, and the labels it is to choose from, if any."""

    def __init__(
        self,
        spec: Spec,
        session: Session,
        settings: Settings,
        options: set[str],
        example: str,
        labels: Sequence[str] = (),
    ) -> None:
        max_tokens = spec.number("max_tokens", MAX_TOKENS, least=1)
        self.session = session
        self.max_tokens = 1 if labels else max_tokens  # one token is read, so room for one is kept
        self.labels = tuple(labels)
        self.model: LanguageModel = session.language_model(
            spec, settings, options | {"max_tokens"}, example
        )

    def info(self, what: str, prompt: str, **more: object) -> ScorerInfo:
        """Return the info of a judge: the model, what is computed, the prompt, the most tokens."""
        details = {**self.model.details, "prompt": prompt, **self._label_details()}
        if self.model.reader is None:  # each request stands by itself
            made = digest(what, *self.model.identity, prompt, self.max_tokens)
            about = {"fingerprint": made, "details": details, "exact": True}
        else:
            made = digest(f"{what} {self.max_tokens}", *list(details.values())[1:])
            about = {"fingerprint": made, "details": details, "cuts": True}
            about["notes"] = self.model.reader.notes
        return ScorerInfo.model_validate({**about, **more})

    def notes(self) -> tuple[str, ...]:
        """Say what loading gave rise to, where replies end, and what texts were broken."""
        if (reader := self.model.reader) is None:
            return ()
        loaded = self.session.of_loading(reader, "causal")[1:]
        return (*loaded, *reader.end_notes, *reader.broken_notes)

    def _label_details(self) -> dict[str, Any]:
        # What labels are read behind, and as, where it is not the label after a plain prompt.
        reader = self.model.reader
        if reader is None or not self.labels:
            return {}
        ids = [reader.template.label_id(label) for label in self.labels]
        alone = [reader.tokenizer(it, add_special_tokens=False)["input_ids"] for it in self.labels]
        return {**reader.answer_details, **({} if alone == [[k] for k in ids] else {"labels": ids})}

    def fit(self, slate: Slate, prompts: Prompts, dropped: int | None = None) -> Prepared:
        """Cut what is shown until every prompt and its reply fit the window, where it is known."""
        reader = self.model.reader
        if reader is None:
            return Prepared(slate)
        encode = self._encoder(reader)
        return fit_slate(
            reader,
            slate,
            lambda cut: [Encoded(encode(messages)) for messages in prompts(cut)],
            self.max_tokens,
            dropped,
        )

    def text(self, messages: Messages) -> str:
        """Return a prompt as the model reads it."""
        return self.model.text(messages, labels=bool(self.labels))

    def of(self, groups: Sequence[Group]) -> Iterator[tuple[int, Sequence[Reply]]]:
        """Yield (position, the group's replies) as they come; each with text, labels or failure.

        A text that was cut off is asked for once more, with more room, when all are there.
        """
        waiting: dict[int, Group] = {}
        replies: dict[int, dict[int, Reply]] = {}
        cut_off: dict[tuple[int, int], None] = {}

        def drawn() -> Iterator[Group]:
            for k, group in enumerate(groups):
                waiting[k], replies[k] = self._encoded(group), {}
                yield waiting[k]

        for k, j, reply in chain(self._first(drawn()), self._again(waiting, cut_off)):
            if reply.cut_off and (k, j) not in cut_off and self._has_more_room(waiting[k][j]):
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
            ids = [tuple(it.ids) for it in prepared[k].inputs]
            return ids or prompts(prepared[k].slate)

        return self.of(Lazy(len(prepared), group))

    def _encoder(self, reader: Reader) -> Callable[[Messages], Ids]:
        return reader.template.answer_prompt if self.labels else reader.template.prompt

    def _has_more_room(self, prompt: Messages | Ids) -> bool:
        return self.model.window is None or len(prompt) + self.max_tokens < self.model.window

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
