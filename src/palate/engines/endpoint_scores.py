"""Numbers of given texts: log-probabilities from an endpoint, and rewards, a format per server.

Log-probabilities come from `POST /completions` with token ids. vLLM gives what its field
`prompt_logprobs` asks for. OpenAI's older form, `echo` with `logprobs`, is known to SGLang,
llama-cpp-python and vLLM. The formats of rewards are read from vLLM 0.33, SGLang 0.5.23,
text-embeddings-inference 1.8 and OpenRLHF 0.11; see docs/reward_servers.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Unpack

from palate.engines.http_client import ClientParts, HttpClient
from palate.engines.http_ledger import usage
from palate.engines.http_replies import first_choice
from palate.engines.http_requests import (
    HttpOutcome,
    HttpRequest,
    HttpSettings,
    UnusableReply,
    ask_groups,
    body_of,
)
from palate.errors import EndpointError
from palate.records import Encoded, Message
from palate.specs import Spec

WRITTEN = 1
"""Tokens that a server writes after the prompt: few take 0."""
FLOOR = -9999.0
"""What vLLM writes for minus infinity, which JSON lacks."""
ROUNDING = 1e-3
"""A log-probability may be above 0 by so much."""
CERTAIN = 8
"""So many tokens of probability 1, and most of a response's, are a sampler's doing."""
LogProbabilities = HttpOutcome[tuple[float, ...]]
"""Those of a response's tokens, or why there are none."""
Outputs = Mapping[str, float]
"""A head's numbers for one text, by name; a server that names none gives "0", "1", …"""
IN_IDS = "use server=vllm, which is sent token ids"
TEI_RAW = {"raw_scores": True, "truncate": False}


class PromptLogprobs:
    """Sends a prompt and a response as one sequence, and reads log p of the response's tokens."""

    def __init__(self, settings: HttpSettings, form: str, **parts: Unpack[ClientParts]) -> None:
        self.settings, self.form = settings, form
        self.client = HttpClient(settings, noun="completion", **parts)
        self._checked = False

    def ask(
        self, groups: Iterable[Sequence[Encoded]], window: int | None = None
    ) -> Iterator[tuple[int, list[LogProbabilities]]]:
        """Yield (group, what came of each of its sequences) as the groups become whole.

        What does not fit the window, where it is known, is not sent. One small request goes first:
        raises `EndpointError` where the endpoint gives no such numbers.
        """
        longest = math.inf if window is None else window - WRITTEN

        def sent(sequence: Encoded) -> HttpRequest[tuple[float, ...]] | LogProbabilities:
            fits = len(sequence.ids) <= longest
            return self._post(sequence) if fits else HttpOutcome(failure="too long")

        rest, drawn = iter(groups), list[Sequence[Encoded]]()
        for group in rest:
            drawn.append(group)
            if fitting := [it for it in group if len(it.ids) <= longest]:
                self._check(fitting[0])
                break
        requests = (list(map(sent, group)) for group in chain(drawn, rest))
        yield from ask_groups(self.client.ask, requests)

    def _check(self, like: Encoded) -> None:
        if self._checked:
            return
        ((_, outcome),) = self.client.ask([self._post(Encoded(tuple(like.ids[:2]), 1))])
        if outcome.value is None and not outcome.outage:
            raise EndpointError(
                f"{self.settings.base_url}: model {self.settings.model} gives no log-probabilities "
                f"of a prompt ({outcome.failure}); {FORMS[self.form].other}"
            )
        self._checked = not outcome.outage

    def _post(self, sequence: Encoded) -> HttpRequest[tuple[float, ...]]:
        ids = list(sequence.ids)
        form = FORMS[self.form]
        body = {"model": self.settings.model, "prompt": ids, "max_tokens": WRITTEN}
        body |= {"temperature": 0, **form.fields}
        read = partial(form.read, ids, sequence.start)
        return HttpRequest("completions", body_of(body), read, WRITTEN)


def read_form(spec: Spec) -> str:
    """Return the form of request that a spec names by `?form=`; raises `SpecError`."""
    return spec.choice("form", FORMS, "prompt_logprobs")


class LogprobForm(NamedTuple):
    """How the log-probabilities of a prompt are asked for, and read."""

    fields: dict[str, object]
    other: str
    """Whom to ask, or how else, where this server gives none."""
    by_id: bool
    """Whether they stand in `prompt_logprobs`, of each token a map from its id, as vLLM's."""

    def read(self, ids: list[int], start: int, completion: Any) -> tuple[float, ...]:
        """Return log p of the tokens from `start` on; raises `UnusableReply` for anything else."""
        sent, field = len(ids), "prompt_logprobs" if self.by_id else "logprobs"
        listed = first_choice(completion).get(field)
        listed = listed if self.by_id else (listed or {}).get("token_logprobs")
        if listed is None:
            raise UnusableReply(f"the reply has no {field}")
        # A server that puts a token before the prompt has read another prompt.
        if not sent <= len(listed) <= sent + (0 if self.by_id else WRITTEN):
            found = f"{len(listed)} tokens, not of {sent}"
            raise UnusableReply(f"the reply has log-probabilities of {found}")
        values = listed[start:sent]
        if self.by_id:
            pairs = zip(ids[start:], values, strict=True)
            values = [(entry or {}).get(str(token), {}).get("logprob") for token, entry in pairs]
        if None in values:
            raise UnusableReply("the reply lacks the log-probability of a token")
        numbers = tuple(map(float, values))
        if any(number > ROUNDING for number in numbers):
            raise UnusableReply("the reply has a log-probability above 0")
        if 2 * (zeros := numbers.count(0.0)) > len(numbers) and zeros >= CERTAIN:
            behind = "as behind a sampler (top_p, top_k)"
            raise UnusableReply(f"most tokens have a log-probability of exactly 0, {behind}")
        return tuple(-math.inf if number <= FLOOR else number for number in numbers)


FORMS = {  # 0 alternatives: of each token its own log-probability alone
    "prompt_logprobs": LogprobForm(
        {"prompt_logprobs": 0}, "vLLM gives them; other servers may with ?form=echo", True
    ),
    "echo": LogprobForm(
        {"echo": True, "logprobs": 1}, "vLLM gives them with ?form=prompt_logprobs", False
    ),
}


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
            n = len(outputs)
            raise UnusableReply(f"the reply holds {n} results for {len(texts)} responses")
        used, here = self.used(reply), sum(len(text.ids) for text in texts)
        fewer = used is not None and 0 < used[0] < here  # a prompt was cut
        if fewer or (self.in_two and (used is None or used[0] != here)):
            tokens = "an unknown number of" if used is None else used[0]
            problem = f"the server read {tokens} tokens, and the model's are {here}"
            raise UnusableReply(f"{problem}; {IN_IDS}")
        return outputs


def _vllm_body(model: str, texts: Sequence[RewardInput], **more: object) -> dict[str, Any]:
    # Token ids in batches, or one conversation as messages.
    body: dict[str, Any] = {"model": model}
    if texts[0].ids:
        body["input"] = [list(text.ids) for text in texts]
    else:
        (text,) = texts
        body["messages"] = [message.model_dump() for message in text.messages]
    return {**body, **more, "use_activation": False}


def _openai_outputs(field: str, reply: Any) -> list[Outputs]:
    rows = sorted(_list(reply["data"]), key=lambda row: int(row["index"]))
    return [_numbered([row[field]] if field == "score" else row[field]) for row in rows]


def _score_body(model: str, texts: Sequence[RewardInput]) -> dict[str, Any]:
    prompt = texts[0].prompt
    responses = [text.closed.removeprefix(prompt) for text in texts]
    return {"model": model, "text_1": prompt, "text_2": responses, "use_activation": False}


def _sglang_used(reply: Any) -> tuple[int, int] | None:
    try:
        return sum(int(row["meta_info"]["prompt_tokens"]) for row in reply), 0
    except (KeyError, TypeError, ValueError):
        return None


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
    "sglang": Format(
        "classify",
        lambda _, texts: {"input_ids": [list(text.ids) for text in texts]},
        lambda reply: [_numbered(row["embedding"]) for row in _list(reply)],
        _sglang_used,
    ),
    "tei": Format(
        "predict",
        # A list of lists is a batch; a flat pair would be one text.
        lambda _, texts: {"inputs": [[text.closed] for text in texts], **TEI_RAW},
        # Labels come sorted by score.
        lambda reply: [
            {str(it["label"]): float(it["score"]) for it in row} for row in _list(reply)
        ],
    ),
    "openrlhf": Format(
        "get_reward",
        lambda _, texts: {
            "query": [text.closed for text in texts],
            "prompts": [text.prompt for text in texts],
            "labels": [""] * len(texts),
        },
        lambda reply: [{"0": float(value)} for value in _list(reply["rewards"])],
        # The server may have been told to normalise, so its numbers are not known to be raw.
        raw=False,
    ),
}


def _numbered(values: Any) -> Outputs:
    return {str(k): float(value) for k, value in enumerate(_list(values))}


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("no list")
    return value
