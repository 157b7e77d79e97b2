"""One HTTP client for chat and for reward servers."""

from palate.engines.http.client import HttpClient, HttpOutcome, HttpRequest, UnusableReply
from palate.engines.http.ledger import Ledger
from palate.engines.http.rate_limit import Clock
from palate.engines.http.settings import (
    SHARED,
    HttpSettings,
    canonical,
    read_endpoint,
    refuse_endpoint_options,
)
from palate.engines.http.transport import HttpResponse, Transport, TransportFailure, body_of, usage

__all__ = [
    "SHARED",
    "Clock",
    "HttpClient",
    "HttpOutcome",
    "HttpRequest",
    "HttpResponse",
    "HttpSettings",
    "Ledger",
    "Transport",
    "TransportFailure",
    "UnusableReply",
    "body_of",
    "canonical",
    "read_endpoint",
    "refuse_endpoint_options",
    "usage",
]
