"""Log-probabilities of tokens that are given, from an endpoint that reads them as a prompt.

`POST /completions` with token ids. vLLM gives what its field `prompt_logprobs` asks for. OpenAI's
older form, `echo` with `logprobs`, is known to SGLang, llama-cpp-python and vLLM.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Unpack

from palate.engines.http import (
    ClientParts,
    HttpClient,
    HttpOutcome,
    HttpRequest,
    HttpSettings,
    UnusableReply,
    body_of,
)
from palate.engines.http.groups import ask_groups
from palate.engines.http.replies import first_choice
from palate.errors import EndpointError
from palate.records import Encoded
from palate.specs import Spec

ASKED: dict[str, dict[str, object]] = {
    # 0 alternatives: of each token its own log-probability alone.
    "prompt_logprobs": {"prompt_logprobs": 0},
    "echo": {"echo": True, "logprobs": 1},
}
OTHER = {
    "prompt_logprobs": "vLLM gives them; other servers may with ?form=echo",
    "echo": "vLLM gives them with ?form=prompt_logprobs",
}
WRITTEN = 1
"""Tokens that a server writes after the prompt: few take 0."""
FLOOR = -9999.0
"""What vLLM writes for minus infinity, which JSON lacks."""
ROUNDING = 1e-3
"""A log-probability may be above 0 by so much."""
CERTAIN = 8
"""So many tokens of probability 1, and most of a response's, are a sampler's doing."""
LogProbabilities = HttpOutcome[tuple[float, ...]]
"""Those of a response's tokens, or why there are none."""


class PromptLogprobs:
    """Sends a prompt and a response as one sequence, and reads log p of the response's tokens."""

    def __init__(self, settings: HttpSettings, form: str, **parts: Unpack[ClientParts]) -> None:
        self.settings, self.form = settings, form
        self.client = HttpClient(settings, noun="completion", **parts)
        self._checked = False

    def ask(
        self, groups: Iterable[Sequence[Encoded]], window: int | None = None
    ) -> Iterator[tuple[int, list[LogProbabilities]]]:
        """Yield (group, what came of each of its sequences) as the groups become whole.

        What does not fit the window, where it is known, is not sent. One small request goes first:
        raises `EndpointError` where the endpoint gives no such numbers.
        """
        longest = math.inf if window is None else window - WRITTEN

        def sent(it: Encoded) -> HttpRequest[tuple[float, ...]] | LogProbabilities:
            fits = len(it.ids) <= longest
            return self._post(it) if fits else HttpOutcome(failure="too long")

        rest, drawn = iter(groups), list[Sequence[Encoded]]()
        for group in rest:
            drawn.append(group)
            if fitting := [it for it in group if len(it.ids) <= longest]:
                self._check(fitting[0])
                break
        requests = (list(map(sent, group)) for group in chain(drawn, rest))
        yield from ask_groups(self.client, requests)

    def _check(self, like: Encoded) -> None:
        if self._checked:
            return
        ((_, outcome),) = self.client.ask([self._post(Encoded(tuple(like.ids[:2]), 1))])
        if outcome.value is None and not outcome.outage:
            raise EndpointError(
                f"{self.settings.base_url}: model {self.settings.model} gives no log-probabilities "
                f"of a prompt ({outcome.failure}); {OTHER[self.form]}"
            )
        self._checked = not outcome.outage

    def _post(self, sequence: Encoded) -> HttpRequest[tuple[float, ...]]:
        ids = list(sequence.ids)
        body = {
            "model": self.settings.model,
            "prompt": ids,
            "max_tokens": WRITTEN,
            "temperature": 0,
            **ASKED[self.form],
        }
        read = partial(READ[self.form], ids=ids, start=sequence.start)
        return HttpRequest("completions", body_of(body), read, WRITTEN)


def read_form(spec: Spec) -> str:
    """Return the form of request that a spec names by `?form=`; raises `SpecError`."""
    return spec.choice("form", ASKED, "prompt_logprobs")


def read_field(completion: Any, ids: list[int], start: int) -> tuple[float, ...]:
    """Read vLLM's `prompt_logprobs`: of each token a map from its id."""
    listed = first_choice(completion).get("prompt_logprobs")
    if listed is None:
        raise UnusableReply("the reply has no prompt_logprobs")
    _check_count(len(listed), len(ids), 0)
    return _log_probabilities(
        (entry or {}).get(str(token), {}).get("logprob")
        for token, entry in zip(ids[start:], listed[start:], strict=True)
    )


def read_echo(completion: Any, ids: list[int], start: int) -> tuple[float, ...]:
    """Read `logprobs` of a completion that begins with its prompt."""
    listed = (first_choice(completion).get("logprobs") or {}).get("token_logprobs")
    if listed is None:
        raise UnusableReply("the reply has no logprobs")
    _check_count(len(listed), len(ids), WRITTEN)
    return _log_probabilities(listed[start : len(ids)])


READ = {"prompt_logprobs": read_field, "echo": read_echo}


def _check_count(there: int, asked: int, more: int) -> None:
    # A server that puts a token before the prompt has read another prompt.
    if not asked <= there <= asked + more:
        raise UnusableReply(f"the reply has log-probabilities of {there} tokens, not of {asked}")


def _log_probabilities(values: Iterable[Any]) -> tuple[float, ...]:
    numbers = tuple(map(_log_probability, values))
    if 2 * (zeros := numbers.count(0.0)) > len(numbers) and zeros >= CERTAIN:
        raise UnusableReply(
            "most tokens have a log-probability of exactly 0, as behind a sampler (top_p, top_k)"
        )
    return numbers


def _log_probability(value: Any) -> float:
    if value is None:
        raise UnusableReply("the reply lacks the log-probability of a token")
    number = float(value)
    if number > ROUNDING:
        raise UnusableReply("the reply has a log-probability above 0")
    return -math.inf if number <= FLOOR else number
