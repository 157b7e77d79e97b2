"""Who runs a model: this process, or an endpoint."""

from palate.engines.endpoints.chat import Ask, ChatEndpoint, ChatSettings, Reply
from palate.engines.endpoints.scripted import ScriptedChat
from palate.engines.local import LocalModel, TokenSpan, generate, load_local, read_mode_of, sample
from palate.engines.local.embedder import Embedder, Embedding, load_embedder, unit_length
from palate.engines.text.chat_template import ChatTemplate
from palate.engines.text.reader import Reader
from palate.records import Encoded

__all__ = [
    "Ask",
    "ChatEndpoint",
    "ChatSettings",
    "ChatTemplate",
    "Embedder",
    "Embedding",
    "Encoded",
    "LocalModel",
    "Reader",
    "Reply",
    "ScriptedChat",
    "TokenSpan",
    "generate",
    "load_embedder",
    "load_local",
    "read_mode_of",
    "sample",
    "unit_length",
]
