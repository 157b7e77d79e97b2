"""Guides that scorers on language models offer a policy: see `guidance/guides.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from palate.engines import ChatTemplate, LocalModel, Reader
from palate.errors import ModelError, UsageError
from palate.guidance import Reading
from palate.prompts import render
from palate.records import Encoded, Message, Slate
from palate.scorers.local_text import LocalText, fit_slate

if TYPE_CHECKING:
    from torch import Tensor

Ids = Sequence[int]


class Prompted(Protocol):
    """A scorer on one model that reads a prompt and goes on from there."""

    local: LocalText

    def prompt_ids(self, slate: Slate) -> Ids:
        """Return what the model reads before the response."""

    def in_place(self) -> AbstractContextManager[None]:
        """Keep the model loaded, and what it needs in place."""


class TokenTerm(NamedTuple):
    """A language model that adds its log-probabilities this often."""

    coefficient: float
    model: Prompted
    without_context: bool = False
    """True where it reads the slate without what is shown."""


class LanguageModelGuide:
    """Σ_j c_j log q_j of every next token."""

    def __init__(self, terms: Sequence[TokenTerm]) -> None:
        self.terms = tuple(terms)
        self.coefficients = tuple(term.coefficient for term in terms)
        self.readers: tuple[Reader, ...] = tuple(term.model.local.reader for term in terms)

    @property
    def models(self) -> tuple[LocalModel, ...]:
        """The models, loaded; do not keep them."""
        return tuple(term.model.local.model for term in self.terms)

    def read(self, slate: Slate, room: int) -> Reading:
        """Cut what is shown to the windows of all models."""
        n = len(slate.shown)
        for term in self.terms:
            if not term.without_context:
                slate = fit_prompt(term.model.local.reader, slate, term.model.prompt_ids, room)
        prompts = tuple(
            term.model.prompt_ids(slate.without_context() if term.without_context else slate)
            for term in self.terms
        )
        for reader, ids in zip(self.readers, prompts, strict=True):
            need_room(reader, ids, room)
        return Reading(slate, prompts, n - len(slate.shown))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Keep the models loaded, and tokens of users in place."""
        with ExitStack() as stack:
            entered: set[int] = set()
            for term in self.terms:
                model = id(term.model.local.model)
                if model not in entered:  # the first's users are known to all that share its model
                    stack.enter_context(term.model.in_place())
                    entered.add(model)
            yield


class StateGuide:
    """Rates a prefix by the state of its last token."""

    def __init__(
        self,
        reader: Reader,
        load: Callable[[], LocalModel],
        read_position: Callable[[Ids], int],
        rewards: Callable[[Tensor, Sequence[Slate]], Tensor],
        prepare: Callable[[Slate], object] = lambda slate: None,
    ) -> None:
        self.readers: tuple[Reader, ...] = (reader,)
        self.read_position, self.rewards = read_position, rewards
        self._load, self._prepare = load, prepare
        self.closing: Ids = closing(reader.template)

    @property
    def models(self) -> tuple[LocalModel, ...]:
        """The model, loaded; do not keep it."""
        return (self._load(),)

    def read(self, slate: Slate, room: int) -> Reading:
        """Cut what is shown to the model's window."""
        (reader,), n = self.readers, len(slate.shown)
        room += len(self.closing)

        def prompt(cut: Slate) -> Ids:
            return reader.template.answer_prompt(render(cut.question, cut.shown))

        slate = fit_prompt(reader, slate, prompt, room)
        ids = prompt(slate)
        need_room(reader, ids, room)
        self._prepare(slate)  # a pass of its own, whose turn a writing thread would never get
        return Reading(slate, (ids,), n - len(slate.shown))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Keep the model loaded."""
        with self._load().in_use():
            yield


def fit_prompt(reader: Reader, slate: Slate, prompt: Callable[[Slate], Ids], room: int) -> Slate:
    """Cut what is shown until prompt and `room` tokens of a response fit the window."""
    return fit_slate(reader, slate, lambda cut: [Encoded(prompt(cut))], room).slate


def need_room(reader: Reader, prompt: Ids, room: int) -> None:
    """Raise `UsageError` where a prompt leaves no room for so many tokens of a response."""
    if reader.window is not None and len(prompt) + room > reader.window:
        raise UsageError(
            f"{reader.reference}: a prompt of {len(prompt)} tokens and a response of {room} are "
            f"longer than its window ({reader.window}); take a smaller max_tokens, or leave the "
            "question out"
        )


def closing(template: ChatTemplate) -> tuple[int, ...]:
    """Return the tokens that follow a response in a closed conversation."""
    messages = (Message(role="user", content="Hello?"),)
    opened, closed = (
        make(messages, "Hello!").ids for make in (template.continuation, template.closed)
    )
    if tuple(closed[: len(opened)]) != tuple(opened):
        raise ModelError(
            f"{template.tokenizer.name_or_path}: the end of a turn changes the tokens before it"
        )
    return tuple(closed[len(opened) :])
