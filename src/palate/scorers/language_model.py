"""How judges get their answers: from a model in this process, or from a chat endpoint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple, Protocol, TypeVar

from palate.engines import Ask, ChatEndpoint, Reply, generate
from palate.errors import EndpointError, ModelError
from palate.records import Encoded, Lazy, Message, Prepared, ScorerInfo, Settings, Slate
from palate.scorers.causal import LocalText
from palate.seeding import digest
from palate.specs import Reference, Spec

Item = TypeVar("Item")
MAX_TOKENS = 512
"""Tokens of a reply, unless `?max_tokens=` says otherwise."""
LARGER = 4
"""A reply that was cut off is asked for once more with this many times the tokens."""
TOP_LOGPROBS = 20


class Prompt(NamedTuple):
    """A prompt, and the labels whose next-token log-probabilities are wanted instead of a text."""

    messages: tuple[Message, ...]
    labels: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    """Its tokens, where they are known already."""


class ModelAnswer(NamedTuple):
    """A text or the labels' logits (up to a constant); or why there is neither."""

    text: str = ""
    labels: tuple[float, ...] | None = None
    failure: str | None = None
    outage: bool = False


Groups = Sequence[Sequence[Prompt]]
Prompts = Callable[[Slate], Sequence[tuple[Message, ...]]]


class LanguageModel(Protocol):
    """Answers groups of questions; the questions of one group begin alike."""

    def info(self, what: str, prompt: str, **more: object) -> ScorerInfo:
        """Return the info of a judge that asks here."""

    def fit(self, slate: Slate, prompts: Prompts, dropped: int | None = None) -> Prepared:
        """Cut what is shown until every prompt fits."""

    def text(self, messages: tuple[Message, ...]) -> str:
        """Return a prompt as the model reads it."""

    def answer(self, groups: Groups) -> Iterator[tuple[int, Sequence[ModelAnswer]]]:
        """Yield (position, the group's answers) as they come."""


def build_language_model(
    spec: Spec, settings: Settings, example: str, options: set[str]
) -> LanguageModel:
    """Return where this judge asks; refuses options that the place does not know."""
    reference = Reference.parse(spec.need_reference(example))
    max_tokens = spec.number("max_tokens", MAX_TOKENS, least=1)
    if spec.options.get("verdict") == "logits":  # one token is read, so room for one is kept
        max_tokens = 1
    if reference.place != "api":
        spec.only(options | {"max_tokens"})
        return LocalLanguageModel(LocalText(reference, "causal", settings), max_tokens)
    chat = ChatEndpoint.of(spec, reference.name, settings, options | {"max_tokens"})
    return ChatLanguageModel(chat, max_tokens)


class LocalLanguageModel:
    """Answers from a model in this process, greedily."""

    def __init__(self, local: LocalText, max_tokens: int) -> None:
        self.local, self.max_tokens = local, max_tokens

    def info(self, what: str, prompt: str, **more: object) -> ScorerInfo:
        """Fingerprint weights, precision, prompt and the limit on tokens."""
        return self.local.info(f"{what} {self.max_tokens}", prompt, **more)

    def fit(self, slate: Slate, prompts: Prompts, dropped: int | None = None) -> Prepared:
        """Cut by tokens; room for the reply is kept."""
        template = self.local.template
        return self.local.fit(
            slate,
            lambda cut: [Encoded(template.prompt(messages)) for messages in prompts(cut)],
            self.max_tokens,
            dropped,
        )

    def text(self, messages: tuple[Message, ...]) -> str:
        """Return the prompt as the template writes it."""
        return self.local.template.text(messages, generation=True)

    def answer(self, groups: Groups) -> Iterator[tuple[int, Sequence[ModelAnswer]]]:
        """Yield each group's answers in turn; what its prompts share is read once."""
        prompt = self.local.template.prompt
        encoded = (
            [question.ids or prompt(question.messages) for question in group] for group in groups
        )
        if not all(question.labels for group in groups for question in group):
            for k, sequences in enumerate(encoded):
                yield k, self._texts(sequences)
            return
        fit: list[bool] = []

        def that_fit() -> Iterator[Sequence[Sequence[int]]]:
            for sequences in encoded:
                fit.append(not self._too_long(sequences))
                yield sequences if fit[-1] else []

        labels = [self._label_id(label) for label in groups[0][0].labels] if groups else []
        for k, found in self.local.model.label_logits(that_fit(), labels):
            if fit[k]:
                yield k, [ModelAnswer(labels=it) for it in found]
            else:
                yield k, [ModelAnswer(failure="too long")] * len(groups[k])

    def _too_long(self, sequences: Sequence[Sequence[int]]) -> bool:
        limit = (self.local.model.window or 10**9) - self.max_tokens
        return any(len(ids) > limit for ids in sequences)

    def _texts(self, sequences: Sequence[Sequence[int]]) -> list[ModelAnswer]:
        if self._too_long(sequences):
            return [ModelAnswer(failure="too long")] * len(sequences)
        model = self.local.model
        answers = [ModelAnswer()] * len(sequences)
        room = (model.window or 10**9) - max(map(len, sequences))
        for k, text, cut_off in generate(model, sequences, self.max_tokens):
            larger = min(LARGER * self.max_tokens, room)
            if cut_off and larger > self.max_tokens:
                ((_, text, cut_off),) = generate(model, [sequences[k]], larger)  # noqa: PLW2901
            answers[k] = ModelAnswer(text=text, failure="cut off" if cut_off else None)
        return answers

    def _label_id(self, label: str) -> int:
        tokenizer = self.local.model.tokenizer
        ids = tokenizer(label, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise ModelError(
                f"{self.local.reference}: {label!r} is not one token; use verdict=text"
            )
        return int(ids[0])


class ChatLanguageModel:
    """Answers from a chat endpoint; each stands by itself, so its judge is exact."""

    def __init__(self, chat: ChatEndpoint, max_tokens: int) -> None:
        self.chat, self.max_tokens = chat, max_tokens

    def info(self, what: str, prompt: str, **more: object) -> ScorerInfo:
        """Fingerprint the model's name, the endpoint, the prompt and the limit on tokens."""
        settings = self.chat.settings
        details = {"model": settings.model, "base_url": settings.base_url, "prompt": prompt}
        made = digest(what, settings.model, settings.base_url, prompt, self.max_tokens)
        return ScorerInfo.model_validate(
            {"fingerprint": made, "details": details, "exact": True, **more}
        )

    def fit(self, slate: Slate, prompts: Prompts, dropped: int | None = None) -> Prepared:
        """Cut nothing: the endpoint's window is its own affair, and it says when it is passed."""
        del prompts, dropped
        return Prepared(slate)

    def text(self, messages: tuple[Message, ...]) -> str:
        """Return the messages one after another."""
        return "\n\n".join(f"[{m.role}]\n{m.content}" for m in messages)

    def answer(self, groups: Groups) -> Iterator[tuple[int, Sequence[ModelAnswer]]]:
        """Yield each group when its last answer has come; groups are looked at one by one."""
        answers_of: dict[int, dict[int, ModelAnswer]] = defaultdict(dict)
        sizes: dict[int, int] = {}
        cut_off: list[tuple[int, int]] = []

        def first() -> Iterator[tuple[int, int, Prompt]]:
            for k, group in enumerate(groups):
                sizes[k] = len(group)
                yield from ((k, j, question) for j, question in enumerate(group))

        def again() -> Iterator[tuple[int, int, Prompt]]:
            for k, j in cut_off:  # when all have been asked once
                yield k, j, groups[k][j]

        for places, max_tokens in ((first(), self.max_tokens), (again(), LARGER * self.max_tokens)):
            for k, j, labels, reply in self._replies(places, max_tokens):
                if reply.cut_off and not labels and max_tokens == self.max_tokens:
                    cut_off.append((k, j))
                    continue
                answers_of[k][j] = self._read(labels, reply)
                if len(answers_of[k]) == sizes[k]:
                    answers = answers_of.pop(k)
                    yield k, [answers[j] for j in range(len(answers))]

    def _replies(
        self, places: Iterator[tuple[int, int, Prompt]], max_tokens: int
    ) -> Iterator[tuple[int, int, tuple[str, ...], Reply]]:
        under_way: dict[int, tuple[int, int, tuple[str, ...]]] = {}

        def asks() -> Iterator[Ask]:
            for position, (k, j, question) in enumerate(places):
                under_way[position] = (k, j, question.labels)
                size = (1, TOP_LOGPROBS) if question.labels else (max_tokens, 0)
                yield Ask(question.messages, *size)

        with closing(self.chat.ask(asks())) as replies:
            for position, reply in replies:
                yield (*under_way.pop(position), reply)

    def _read(self, labels: tuple[str, ...], reply: Reply) -> ModelAnswer:
        if reply.failure is not None:
            return ModelAnswer(failure=reply.failure, outage=reply.outage)
        if labels:
            return self._read_labels(labels, reply)
        return ModelAnswer(text=reply.text, failure="cut off" if reply.cut_off else None)

    def _read_labels(self, labels: Sequence[str], reply: Reply) -> ModelAnswer:
        if reply.first_token is None:
            raise EndpointError(
                f"{self.chat.settings.base_url}: no log-probabilities came back for model "
                f"{self.chat.settings.model}; use verdict=text"
            )
        best: dict[str, float] = {}
        for token, logp in reply.first_token.items():
            label = token.strip()
            if label in labels:
                best[label] = max(logp, best.get(label, float("-inf")))
        missing = [label for label in labels if label not in best]
        if missing:
            reason = f"unreadable: label {missing[0]} is not among the first token's alternatives"
            return ModelAnswer(text=reply.text, failure=reason)
        return ModelAnswer(text=reply.text, labels=tuple(best[label] for label in labels))


def with_ids(prompts: Sequence[Prompt], read: Prepared) -> list[Prompt]:
    """Return prompts with the tokens that are known of them."""
    if not read.inputs:
        return list(prompts)
    return [
        prompt._replace(ids=tuple(it.ids)) for prompt, it in zip(prompts, read.inputs, strict=True)
    ]


def prompt_groups(
    answers: LanguageModel, items: Sequence[Item], make: Callable[[Item], Sequence[Prompt]]
) -> Groups:
    """Return groups of questions; a model in this process looks at each more than once."""
    if isinstance(answers, ChatLanguageModel):
        return Lazy(len(items), lambda k: make(items[k]))
    return [make(item) for item in items]
