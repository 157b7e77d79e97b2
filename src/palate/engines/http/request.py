"""One request, how its reply is read, and what may come of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from palate.engines.http.prompt_counts import Count, PromptCounts
from palate.engines.http.refusals import Refusal, status_within
from palate.engines.http.transport import usage
from palate.errors import EndpointError

T = TypeVar("T")
NOT_SENT = "written to the file of requests, not sent"


class UnusableReply(Exception):
    """A reply that was read and is of no use; asking again would give the same."""


class FailedReply(Exception):
    """A reply in which the server says, or shows, that it failed; asking again may help."""


class AllRefused(EndpointError):
    """The first requests were refused for one reason, and none went well."""

    def __init__(self, message: str, refusal: Refusal) -> None:
        super().__init__(message)
        self.refusal = refusal


class NotSent(EndpointError):
    """Requests were written to a file instead of being sent."""


class HttpRequest(NamedTuple, Generic[T]):
    """One request and how its reply is read."""

    path: str
    body: bytes
    read: Callable[[Any], T | None]
    """From the reply's JSON. None and `FailedReply` are no reply to this; `UnusableReply` ends the
    request."""
    tokens_out: int = 0
    """The most the reply may have."""
    used: Callable[[Any], tuple[int, int] | None] = usage
    """From the reply's JSON, the tokens read and written; None where it does not say."""
    keeps: Callable[[T], bool] = lambda _: True
    """Whether what was read may stay in the cache."""
    streams: bool = False
    """Whether the reply may be long, and is asked for as a stream where the server can."""
    number: int = 0
    """Tells apart requests that ask the same and want other replies."""

    def outcome(self, said: Any) -> HttpOutcome[T] | Retry:
        """Return what a reply's JSON is to this request."""
        if status_within(said) is not None:
            return Retry("")
        try:
            value = self.read(said)
        except UnusableReply as error:
            return HttpOutcome(failure=str(error))
        except FailedReply as error:
            return Retry(str(error))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return Retry("")
        return Retry("") if value is None else HttpOutcome(value)

    def may_stay(self, outcome: HttpOutcome[T]) -> bool:
        """Tell whether a reply may be kept for good."""
        return outcome.value is not None and self.keeps(outcome.value)


Doubt = tuple[PromptCounts, Count, str, bytes]
"""Of a prompt that others may show to be cut; key and body of its reply where it is not kept."""


class HttpOutcome(NamedTuple, Generic[T]):
    """What came of one request."""

    value: T | None = None
    failure: str | None = None
    outage: bool = False
    """The endpoint did not answer: asking again later may help, unlike after a refusal."""
    refusal: Refusal | None = None
    """What the server refused, where it did."""
    doubt: Doubt | None = None
    """Where its prompt has doubtfully few tokens: it waits for others, and is not kept before."""


class Retry(NamedTuple):
    """An attempt that may be repeated, and how long the server wants to be left alone."""

    reason: str
    rest: float | None = None
    charged: bool = True
    at_once: bool = False
    """Whether it is repeated without a wait, and is no attempt."""
