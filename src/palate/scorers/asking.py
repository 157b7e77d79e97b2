"""How judges get their answers: from a model in this process, or from a chat endpoint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from palate.engines import Ask, ChatEndpoint, ChatSettings, Reply
from palate.errors import EndpointError, ModelError, SpecError
from palate.records import Message, Settings, Slate, Traits
from palate.scorers.causal import LocalText
from palate.seeding import digest
from palate.specs import Reference, Spec

LARGER = 4
"""A reply that was cut off is asked for once more with this many times the tokens."""
TOP_LOGPROBS = 20
NETWORK = {"key_env", "concurrency", "timeout", "retries", "limit_field"}
LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")


def canonical(spec: Spec) -> str:
    """Return a judge's spec without the options that say how to ask, not what."""
    kept = {name: value for name, value in spec.options.items() if name not in NETWORK}
    return str(spec.model_copy(update={"options": kept}))


class Question(NamedTuple):
    """A prompt, and the labels whose next-token log-probabilities are wanted instead of a text."""

    messages: tuple[Message, ...]
    labels: tuple[str, ...] = ()


class Answer(NamedTuple):
    """A text or the labels' logits (up to a constant); or why there is neither."""

    text: str = ""
    labels: tuple[float, ...] | None = None
    failure: str | None = None
    outage: bool = False


Groups = Sequence[Sequence[Question]]
Prompts = Callable[[Slate], Sequence[tuple[Message, ...]]]


class Answerer(Protocol):
    """Answers groups of questions; the questions of one group begin alike."""

    def traits(self, what: str, prompt: str, **more: object) -> Traits:
        """Return the traits of a judge that asks here."""
        ...

    def fit(self, slate: Slate, prompts: Prompts) -> Slate:
        """Cut what is shown until every prompt fits."""
        ...

    def text(self, messages: tuple[Message, ...]) -> str:
        """Return a prompt as the model reads it."""
        ...

    def answer(self, groups: Groups) -> Iterator[tuple[int, Sequence[Answer]]]:
        """Yield (position, the group's answers) as they come."""
        ...


def answerer(spec: Spec, settings: Settings, example: str, options: set[str]) -> Answerer:
    """Return where this judge asks; refuses options that the place does not know."""
    reference = Reference.parse(spec.need_reference(example))
    max_tokens = spec.number("max_tokens", 512, least=1)
    if spec.options.get("verdict") == "logits":  # one token is read, so room for one is kept
        max_tokens = 1
    if reference.place != "api":
        spec.only(options | {"max_tokens"})
        return LocalAnswers(LocalText(reference, "causal", settings), max_tokens)
    spec.only(options | NETWORK | {"base_url", "max_tokens"})
    if "base_url" not in spec.options:
        raise SpecError(f"{spec}: an endpoint needs ?base_url=https://…/v1")
    return ChatAnswers(
        ChatEndpoint(
            ChatSettings(
                model=reference.name,
                base_url=spec.options["base_url"],
                key_env=spec.options.get("key_env", "PALATE_API_KEY"),
                concurrency=spec.number("concurrency", 8, least=1),
                timeout_s=spec.number("timeout", 120, least=1),
                retries=spec.number("retries", 5),
                limit_field=spec.choice("limit_field", LIMIT_FIELDS, LIMIT_FIELDS[0]),
            )
        ),
        max_tokens,
    )


class LocalAnswers:
    """Answers from a model in this process, greedily."""

    def __init__(self, local: LocalText, max_tokens: int) -> None:
        self.local, self.max_tokens = local, max_tokens

    def traits(self, what: str, prompt: str, **more: object) -> Traits:
        """Fingerprint weights, precision, prompt and the limit on tokens."""
        return self.local.traits(f"{what} {self.max_tokens}", prompt, **more)

    def fit(self, slate: Slate, prompts: Prompts) -> Slate:
        """Cut by tokens; room for the reply is kept."""
        template = self.local.template
        return self.local.fit(
            slate,
            lambda cut: [len(template.prompt(messages)) for messages in prompts(cut)],
            reserve=self.max_tokens,
        )

    def text(self, messages: tuple[Message, ...]) -> str:
        """Return the prompt as the template writes it."""
        return self.local.template.text(messages, generation=True)

    def answer(self, groups: Groups) -> Iterator[tuple[int, Sequence[Answer]]]:
        """Yield each group's answers in turn; its prompts share one cache."""
        prompt = self.local.template.prompt
        if all(question.labels for group in groups for question in group):
            jobs = (
                (
                    k,
                    partial(
                        self._labels,
                        [prompt(question.messages) for question in group],
                        [self._label_id(label) for label in group[0].labels],
                    ),
                )
                for k, group in enumerate(groups)
            )
            yield from self.local.model.spread(jobs)
            return
        for k, group in enumerate(groups):
            yield k, self._texts([prompt(question.messages) for question in group])

    def _too_long(self, sequences: Sequence[Sequence[int]]) -> bool:
        limit = (self.local.model.window or 10**9) - self.max_tokens
        return any(len(ids) > limit for ids in sequences)

    def _labels(
        self, sequences: Sequence[Sequence[int]], labels: Sequence[int]
    ) -> Sequence[Answer]:
        if self._too_long(sequences):
            return [Answer(failure="too long")] * len(sequences)
        return [Answer(labels=it) for it in self.local.model.label_logits(sequences, labels)]

    def _texts(self, sequences: Sequence[Sequence[int]]) -> list[Answer]:
        if self._too_long(sequences):
            return [Answer(failure="too long")] * len(sequences)
        model = self.local.model
        answers = [Answer()] * len(sequences)
        room = (model.window or 10**9) - max(map(len, sequences))
        for k, text, cut_off in model.generate(sequences, self.max_tokens):
            larger = min(LARGER * self.max_tokens, room)
            if cut_off and larger > self.max_tokens:
                ((_, text, cut_off),) = model.generate([sequences[k]], larger)  # noqa: PLW2901
            answers[k] = Answer(text=text, failure="cut off" if cut_off else None)
        return answers

    def _label_id(self, label: str) -> int:
        tokenizer = self.local.model.tokenizer
        ids = tokenizer(label, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise ModelError(
                f"{self.local.reference}: {label!r} is not one token; use verdict=text"
            )
        return int(ids[0])


class ChatAnswers:
    """Answers from a chat endpoint; each stands by itself, so its judge is exact."""

    def __init__(self, chat: ChatEndpoint, max_tokens: int) -> None:
        self.chat, self.max_tokens = chat, max_tokens

    def traits(self, what: str, prompt: str, **more: object) -> Traits:
        """Fingerprint the model's name, the endpoint, the prompt and the limit on tokens."""
        settings = self.chat.settings
        details = {"model": settings.model, "base_url": settings.base_url, "prompt": prompt}
        made = digest(what, settings.model, settings.base_url, prompt, self.max_tokens)
        return Traits.model_validate(
            {"fingerprint": made, "details": details, "exact": True, **more}
        )

    def fit(self, slate: Slate, prompts: Prompts) -> Slate:
        """Cut nothing: the endpoint's window is its own affair, and it says when it is passed."""
        del prompts
        return slate

    def text(self, messages: tuple[Message, ...]) -> str:
        """Return the messages one after another."""
        return "\n\n".join(f"[{m.role}]\n{m.content}" for m in messages)

    def answer(self, groups: Groups) -> Iterator[tuple[int, Sequence[Answer]]]:
        """Yield each group when its last answer has come."""
        places = [(k, j) for k, group in enumerate(groups) for j in range(len(group))]
        found: dict[int, dict[int, Answer]] = defaultdict(dict)
        for max_tokens in (self.max_tokens, LARGER * self.max_tokens):
            cut_off: list[tuple[int, int]] = []
            asks = [self._ask(groups[k][j], max_tokens) for k, j in places]
            for position, reply in self.chat.ask(asks):
                k, j = places[position]
                if reply.cut_off and not groups[k][j].labels and max_tokens == self.max_tokens:
                    cut_off.append((k, j))  # asked again when all have been asked once
                    continue
                found[k][j] = self._read(groups[k][j], reply)
                if len(found[k]) == len(groups[k]):
                    answers = found.pop(k)
                    yield k, [answers[j] for j in range(len(answers))]
            places = cut_off

    def _ask(self, question: Question, max_tokens: int) -> Ask:
        if question.labels:
            return Ask(question.messages, 1, TOP_LOGPROBS)
        return Ask(question.messages, max_tokens)

    def _read(self, question: Question, reply: Reply) -> Answer:
        if reply.failure is not None:
            return Answer(failure=reply.failure, outage=reply.outage)
        if question.labels:
            return self._read_labels(question.labels, reply)
        return Answer(text=reply.text, failure="cut off" if reply.cut_off else None)

    def _read_labels(self, labels: Sequence[str], reply: Reply) -> Answer:
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
            return Answer(text=reply.text, failure=reason)
        return Answer(text=reply.text, labels=tuple(best[label] for label in labels))
