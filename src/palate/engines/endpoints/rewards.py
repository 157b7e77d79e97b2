"""What reward servers are sent and what they reply, one class per server.

Read from vLLM 0.33, SGLang 0.5.23, text-embeddings-inference 1.8 and OpenRLHF 0.11; see
docs/engines.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from palate.engines.http import Unusable, usage
from palate.records import Message

Outputs = Mapping[str, float]
"""A head's numbers for one text, by name; a server that names none gives "0", "1", …"""


class Text(NamedTuple):
    """One conversation closed by a response, in each form that a server may want."""

    messages: tuple[Message, ...]
    closed: str = ""
    """As the model's own template writes it; "" where no tokenizer is named."""
    prompt: str = ""
    ids: tuple[int, ...] = ()


class Format(Protocol):
    """One server's request and reply."""

    path: str
    takes_messages: bool
    """Whether the server renders messages itself, one conversation to a request."""
    raw: bool
    """Whether the request asks for the head's numbers without a sigmoid or softmax over them."""

    def body(self, model: str, texts: Sequence[Text]) -> dict[str, Any]:
        """Return the request's JSON."""
        ...

    def outputs(self, said: Any) -> list[Outputs]:
        """Return the numbers of each text, in the order asked; raises where it is no such reply."""
        ...

    def used(self, said: Any) -> tuple[int, int] | None:
        """Return the tokens read and written; None, as here, where the reply does not say."""
        del said
        return None


class VllmClassify(Format):
    """`POST /classify` of vLLM: token ids in batches, or one conversation as messages."""

    path, takes_messages, raw = "classify", True, True

    def body(self, model: str, texts: Sequence[Text]) -> dict[str, Any]:
        """Return the request's JSON."""
        return {"model": model, **_vllm_input(texts), "use_activation": False}

    def outputs(self, said: Any) -> list[Outputs]:
        """Return the numbers of each text; the field is called `probs` whatever was asked for."""
        return [_numbered(row["probs"]) for row in _by_index(said["data"])]

    def used(self, said: Any) -> tuple[int, int] | None:
        """Return the tokens read."""
        return usage(said)


class VllmPooling(VllmClassify):
    """`POST /pooling` of vLLM with task `classify`."""

    path = "pooling"

    def body(self, model: str, texts: Sequence[Text]) -> dict[str, Any]:
        """Return the request's JSON."""
        return {
            "model": model,
            **_vllm_input(texts),
            "task": "classify",
            "encoding_format": "float",
            "use_activation": False,
        }

    def outputs(self, said: Any) -> list[Outputs]:
        """Return the numbers of each text."""
        return [_numbered(row["data"]) for row in _by_index(said["data"])]


class Sglang(Format):
    """`POST /classify` of SGLang: token ids; the head's numbers come back as `embedding`."""

    path, takes_messages, raw = "classify", False, True

    def body(self, model: str, texts: Sequence[Text]) -> dict[str, Any]:
        """Return the request's JSON; the server holds one model, so none is named."""
        del model
        return {"input_ids": [list(text.ids) for text in texts]}

    def outputs(self, said: Any) -> list[Outputs]:
        """Return the numbers of each text."""
        return [_numbered(row["embedding"]) for row in _list(said)]

    def used(self, said: Any) -> tuple[int, int] | None:
        """Return the tokens read."""
        try:
            return sum(int(row["meta_info"]["prompt_tokens"]) for row in said), 0
        except (KeyError, TypeError, ValueError):
            return None


class Tei(Format):
    """`POST /predict` of text-embeddings-inference: texts; labels sorted by score come back."""

    path, takes_messages, raw = "predict", False, True

    def body(self, model: str, texts: Sequence[Text]) -> dict[str, Any]:
        """Return the request's JSON; a list of lists is a batch, a flat pair would be one text."""
        del model
        return {"inputs": [[text.closed] for text in texts], "raw_scores": True, "truncate": False}

    def outputs(self, said: Any) -> list[Outputs]:
        """Return the numbers of each text by label."""
        return [{str(one["label"]): float(one["score"]) for one in row} for row in _list(said)]


class OpenRlhf(Format):
    """`POST /get_reward`, the reward server of OpenRLHF: whole texts; one number each comes back.

    The server may have been told to normalise, so its numbers are not known to be raw.
    """

    path, takes_messages, raw = "get_reward", False, False

    def body(self, model: str, texts: Sequence[Text]) -> dict[str, Any]:
        """Return the request's JSON."""
        del model
        return {
            "query": [text.closed for text in texts],
            "prompts": [text.prompt for text in texts],
            "labels": ["" for _ in texts],
        }

    def outputs(self, said: Any) -> list[Outputs]:
        """Return the number of each text."""
        return [{"0": float(value)} for value in _list(said["rewards"])]


FORMATS: Mapping[str, Format] = {
    "vllm": VllmClassify(),
    "vllm-pooling": VllmPooling(),
    "sglang": Sglang(),
    "tei": Tei(),
    "openrlhf": OpenRlhf(),
}


def _vllm_input(texts: Sequence[Text]) -> dict[str, Any]:
    if texts[0].ids:
        return {"input": [list(text.ids) for text in texts]}
    (text,) = texts
    return {"messages": [{"role": m.role, "content": m.content} for m in text.messages]}


def _numbered(values: Any) -> Outputs:
    return {str(k): float(value) for k, value in enumerate(_list(values))}


def _by_index(rows: Any) -> list[Any]:
    return sorted(_list(rows), key=lambda row: int(row["index"]))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


def check_count(outputs: Sequence[Outputs], asked: int) -> None:
    """Raise `Unusable` where the reply does not hold one result per text."""
    if len(outputs) != asked:
        raise Unusable(f"the reply holds {len(outputs)} results for {asked} responses")
