"""Who runs a model: this process, or an endpoint."""

from palate.engines.chat import Ask, ChatEndpoint, ChatSettings, Reply
from palate.engines.chat_template import ChatTemplate, Encoded
from palate.engines.embedder import Embedder, Embedding, load_embedder, unit_length
from palate.engines.local import LocalModel, common_prefix, load_local
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
    "common_prefix",
    "load_embedder",
    "load_local",
    "unit_length",
]
