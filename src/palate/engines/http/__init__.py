"""One HTTP client for chat and for reward servers."""

from palate.engines.http.bodies import body_of, usage
from palate.engines.http.client import HttpClient, Outcome, Post, Unusable
from palate.engines.http.clock import Clock
from palate.engines.http.ledger import Ledger, ledger_of
from palate.engines.http.settings import HttpSettings
from palate.engines.http.wire import Answer, Wire, WireFailure

__all__ = [
    "Answer",
    "Clock",
    "HttpClient",
    "HttpSettings",
    "Ledger",
    "Outcome",
    "Post",
    "Unusable",
    "Wire",
    "WireFailure",
    "body_of",
    "ledger_of",
    "usage",
]
