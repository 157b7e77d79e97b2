"""Requests to reward servers and their replies, one format per server.

Read from vLLM 0.33, SGLang 0.5.23, text-embeddings-inference 1.8 and OpenRLHF 0.11; see
docs/reward_servers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from palate.engines.http import UnusableReply, usage
from palate.records import Message

Outputs = Mapping[str, float]
"""A head's numbers for one text, by name; a server that names none gives "0", "1", …"""
IN_IDS = "use server=vllm, which is sent token ids"


class RewardInput(NamedTuple):
    """One conversation closed by a response, in each form that a server may want."""

    messages: tuple[Message, ...]
    closed: str = ""
    """As the model's own template writes it; "" where no tokenizer is named."""
    prompt: str = ""
    ids: tuple[int, ...] = ()


class Format(NamedTuple):
    """One server's request and reply."""

    path: str
    body: Callable[[str, Sequence[RewardInput]], dict[str, Any]]
    """From the model's name and the texts, the request's JSON."""
    outputs: Callable[[Any], list[Outputs]]
    """From the reply's JSON, each text's numbers in the order asked; raises where it is none."""
    used: Callable[[Any], tuple[int, int] | None] = lambda _: None
    """From the reply's JSON, the tokens read and written; None where it does not say."""
    takes_messages: bool = False
    """Whether the server renders messages itself, one conversation to a request."""
    raw: bool = True
    """Whether the request asks for the head's numbers without a sigmoid or softmax over them."""
    in_two: bool = False
    """Whether prompt and response are sent as two texts, which the server puts together in a way
    of its own. How many tokens it read then has to be what is read here."""

    def read(self, reply: Any, texts: Sequence[RewardInput]) -> list[Outputs]:
        """Return each text's numbers; raises `UnusableReply` where they are of other texts."""
        outputs = self.outputs(reply)
        if len(outputs) != len(texts):
            raise UnusableReply(
                f"the reply holds {len(outputs)} results for {len(texts)} responses"
            )
        used, here = self.used(reply), sum(len(text.ids) for text in texts)
        fewer = used is not None and 0 < used[0] < here  # a prompt was cut
        if fewer or (self.in_two and (used is None or used[0] != here)):
            there = "an unknown number of" if used is None else used[0]
            raise UnusableReply(
                f"the server read {there} tokens, and the model's are {here}; {IN_IDS}"
            )
        return outputs


def _vllm_body(model: str, texts: Sequence[RewardInput], **more: object) -> dict[str, Any]:
    # Token ids in batches, or one conversation as messages.
    body: dict[str, Any] = {"model": model}
    if texts[0].ids:
        body["input"] = [list(text.ids) for text in texts]
    else:
        (text,) = texts
        body["messages"] = [{"role": m.role, "content": m.content} for m in text.messages]
    return {**body, **more, "use_activation": False}


def _openai_outputs(field: str, reply: Any) -> list[Outputs]:
    rows = sorted(_list(reply["data"]), key=lambda row: int(row["index"]))
    return [_numbered([row[field]] if field == "score" else row[field]) for row in rows]


def _score_body(model: str, texts: Sequence[RewardInput]) -> dict[str, Any]:
    prompt = texts[0].prompt
    responses = [text.closed.removeprefix(prompt) for text in texts]
    return {"model": model, "text_1": prompt, "text_2": responses, "use_activation": False}


def _sglang_body(_: str, texts: Sequence[RewardInput]) -> dict[str, Any]:
    return {"input_ids": [list(text.ids) for text in texts]}


def _sglang_outputs(reply: Any) -> list[Outputs]:
    return [_numbered(row["embedding"]) for row in _list(reply)]


def _sglang_used(reply: Any) -> tuple[int, int] | None:
    try:
        return sum(int(row["meta_info"]["prompt_tokens"]) for row in reply), 0
    except (KeyError, TypeError, ValueError):
        return None


def _tei_body(_: str, texts: Sequence[RewardInput]) -> dict[str, Any]:
    # A list of lists is a batch; a flat pair would be one text.
    return {"inputs": [[text.closed] for text in texts], "raw_scores": True, "truncate": False}


def _tei_outputs(reply: Any) -> list[Outputs]:
    # Labels come sorted by score.
    return [{str(pair["label"]): float(pair["score"]) for pair in row} for row in _list(reply)]


def _openrlhf_body(_: str, texts: Sequence[RewardInput]) -> dict[str, Any]:
    return {
        "query": [text.closed for text in texts],
        "prompts": [text.prompt for text in texts],
        "labels": ["" for _ in texts],
    }


def _openrlhf_outputs(reply: Any) -> list[Outputs]:
    return [{"0": float(value)} for value in _list(reply["rewards"])]


FORMATS: Mapping[str, Format] = {
    # vLLM calls the field `probs` whatever was asked for.
    "vllm": Format(
        "classify", _vllm_body, partial(_openai_outputs, "probs"), usage, takes_messages=True
    ),
    "vllm-pooling": Format(
        "pooling",
        partial(_vllm_body, task="classify", encoding_format="float"),
        partial(_openai_outputs, "data"),
        usage,
        takes_messages=True,
    ),
    "vllm-score": Format(
        "score", _score_body, partial(_openai_outputs, "score"), usage, in_two=True
    ),
    "sglang": Format("classify", _sglang_body, _sglang_outputs, _sglang_used),
    "tei": Format("predict", _tei_body, _tei_outputs),
    # The server may have been told to normalise, so its numbers are not known to be raw.
    "openrlhf": Format("get_reward", _openrlhf_body, _openrlhf_outputs, raw=False),
}


def _numbered(values: Any) -> Outputs:
    return {str(k): float(value) for k, value in enumerate(_list(values))}


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("no list")
    return value
