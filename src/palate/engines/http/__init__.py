"""One HTTP client for chat and for reward servers."""

from palate.engines.http.client import HttpClient, Outcome, Post, Unusable
from palate.engines.http.ledger import Ledger, ledger_of
from palate.engines.http.pace import Clock
from palate.engines.http.settings import SHARED, HttpSettings, canonical, http_options
from palate.engines.http.wire import Answer, Wire, WireFailure, body_of, usage

__all__ = [
    "SHARED",
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
    "canonical",
    "http_options",
    "ledger_of",
    "usage",
]
