"""Models, run by this process or by an endpoint."""

from palate.engines.endpoints.chat import Ask, ChatEndpoint
from palate.engines.http.replies import Reply
from palate.engines.language_model import (
    TOO_LONG,
    EndpointLanguageModel,
    LanguageModel,
    LocalLanguageModel,
)
from palate.engines.local import LocalModel, TokenSpan, generate, sample
from palate.engines.local.embedder import Embedder, Embedding, unit_length
from palate.engines.text.chat_template import ChatTemplate
from palate.engines.text.reader import Reader
from palate.records import Encoded

__all__ = [
    "TOO_LONG",
    "Ask",
    "ChatEndpoint",
    "ChatTemplate",
    "Embedder",
    "Embedding",
    "Encoded",
    "EndpointLanguageModel",
    "LanguageModel",
    "LocalLanguageModel",
    "LocalModel",
    "Reader",
    "Reply",
    "TokenSpan",
    "generate",
    "sample",
    "unit_length",
]
