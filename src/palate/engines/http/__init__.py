"""One HTTP client for chat and for reward servers."""

from palate.engines.http.client import ClientParts, HttpClient
from palate.engines.http.ledger import Ledger
from palate.engines.http.rate_limit import Clock
from palate.engines.http.refusals import Refusal
from palate.engines.http.reply_cache import ReplyCache
from palate.engines.http.request import (
    AllRefused,
    FailedReply,
    HttpOutcome,
    HttpRequest,
    UnusableReply,
)
from palate.engines.http.settings import (
    NO_TEMPERATURE,
    SHARED,
    HttpSettings,
    canonical,
    place_of,
    read_endpoint,
    refuse_endpoint_options,
)
from palate.engines.http.transport import HttpResponse, TransportFailure, body_of, usage

__all__ = [
    "NO_TEMPERATURE",
    "SHARED",
    "AllRefused",
    "ClientParts",
    "Clock",
    "FailedReply",
    "HttpClient",
    "HttpOutcome",
    "HttpRequest",
    "HttpResponse",
    "HttpSettings",
    "Ledger",
    "Refusal",
    "ReplyCache",
    "TransportFailure",
    "UnusableReply",
    "body_of",
    "canonical",
    "place_of",
    "read_endpoint",
    "refuse_endpoint_options",
    "usage",
]
