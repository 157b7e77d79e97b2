"""Who runs a model: this process, or an endpoint."""

from palate.engines.chat import Ask, ChatEndpoint, ChatSettings, Reply
from palate.engines.chat_template import ChatTemplate, Encoded
from palate.engines.embedder import Embedder, Embedding, load_embedder, unit_length
from palate.engines.local import LocalModel, Wanted, generate, load_local, route_of, sample
from palate.engines.reader import Reader
from palate.engines.scripted import ScriptedChat

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
    "Wanted",
    "generate",
    "load_embedder",
    "load_local",
    "route_of",
    "sample",
    "unit_length",
]
