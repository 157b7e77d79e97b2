"""Fields of a chat request beside palate's own: how long to reason, a reply's schema, a file's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from palate.engines.http_client import ClientParts, HttpClient
from palate.engines.http_ledger import Ledger
from palate.engines.http_refusals import Refusal
from palate.engines.http_replies import read_completion, shows_thought
from palate.engines.http_requests import HttpOutcome, HttpRequest, HttpSettings, body_of
from palate.errors import EndpointError, UsageError, first_line
from palate.marks import OpenThought, after_thought
from palate.seeding import canonical_json
from palate.specs import Spec, SpecFile

EFFORTS = {"low": 2_048, "medium": 8_192, "high": 16_384}
"""Tokens of a reply and its thought, unless `?max_tokens=` says otherwise."""
SCHEMA_TOKENS = 2_048
"""Of the reply that shows whether a server holds it to a schema: a model may think first."""
WRONG = "palate"
"""An effort that no server has: one that accepts it ignores the field."""
Fields = Mapping[str, Any]
REASONING: dict[str, Callable[[str], Fields]] = {
    "reasoning_effort": lambda effort: {"reasoning_effort": effort},
    "reasoning": lambda effort: {"reasoning": {"effort": effort}},
    "thinking": lambda effort: {
        "thinking": {"type": "enabled", "budget_tokens": EFFORTS[effort] // 2}
        if effort in EFFORTS
        else {"type": effort}
    },
}
"""How servers call the effort, in the order in which they are asked."""
OWNED = {
    *("model", "messages", "temperature", "top_p", "seed", "n", "stop", "stream", "stream_options"),
    *("max_tokens", "max_completion_tokens", "logprobs", "top_logprobs", "response_format"),
}
"""Fields that palate sends, or reads replies by."""
ASKED = [{"role": "user", "content": "Answer with the one word: tea"}]
YES_SCHEMA = {"answer": {"type": "string", "enum": ["yes", "no"]}}


class Taken(NamedTuple):
    """What came back to a field that was tried."""

    text: str
    thought: bool


class Extra(NamedTuple):
    """What a spec says of these fields."""

    effort: str = ""
    body: Fields = {}
    file: SpecFile | None = None

    @property
    def details(self) -> dict[str, str]:
        """What replies depend on, by name."""
        effort = {"effort": self.effort} if self.effort else {}
        return effort if self.file is None else {**effort, "body": self.file.hash}


def read_extra(spec: Spec) -> Extra:
    """Return what a spec says of these fields; raises `SpecError` for what it cannot say."""
    effort = "effort" in spec.options and spec.choice("effort", EFFORTS, "low")
    file = spec.file("body")
    if file is None:
        return Extra(effort or "")
    try:
        pairs = json.loads(file.text, object_pairs_hook=_once)
        canonical_json(pairs)  # refuses NaN and infinity
    except (ValueError, RecursionError) as error:
        raise file.error(f"no JSON: {first_line(error)}") from error
    if not isinstance(pairs, dict) or not pairs:
        raise file.error('expected a JSON object of fields, such as {"top_k": 20}')
    owned = OWNED | (set(REASONING) if effort else set())
    if taken := sorted(owned & pairs.keys()):
        why = "beside effort=, palate's own" if taken[0] in REASONING else "palate's own"
        raise file.error(f"{taken[0]} is {why}; leave it out")
    return Extra(effort or "", pairs, file)


def reply_limit(spec: Spec, default: int) -> int:
    """Return the most tokens of a reply; a spec with an effort may write more by default."""
    usual = EFFORTS.get(spec.options.get("effort", ""), default)
    return spec.number("max_tokens", usual, least=1)


def schema_of(label: str, values: Sequence[str | int]) -> Fields:
    """Return the field that holds a reply to a reason and one of these labels."""
    kind = "string" if isinstance(values[0], str) else "integer"
    return _held({"reason": {"type": "string"}, label: {"type": kind, "enum": [*values]}})


def _held(properties: Fields) -> Fields:
    schema = {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
    named = {"name": "reply", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


class ExtraFields:
    """The fields that one endpoint is sent, once it is known which it takes.

    What a server takes is asked once and kept beside its other notes, so that a run that goes on
    sends and says the same.
    """

    def __init__(self, extra: Extra, settings: HttpSettings, parts: ClientParts) -> None:
        self.extra, self.settings = extra, settings
        self.schema: Fields | None = None
        """The field that holds replies to a schema, where that is wanted."""
        self._cache, self._ledger = parts.get("replies"), parts.get("ledger") or Ledger()
        self._parts = ClientParts(**{**parts, "replies": None, "ledger": self._ledger})
        self._place = f"{settings.place} fields"

    def settle(self) -> None:
        """Ask the server what it takes, where that is not known.

        Raises `EndpointError` where it has no field for an effort, or does not answer.
        """
        wanted = {
            "reasoning": self._reasoning_field if self.extra.effort else None,
            "schema": self._schema_fate if self.schema is not None else None,
        }
        for kind, ask in wanted.items():
            if ask is None or self._noted.get(kind):
                continue
            if self._cache is not None and self._cache.requests is not None:
                raise UsageError(
                    f"{self.settings.base_url}: --requests sends nothing, and which field of "
                    f"{kind} the server takes has to be asked first: run one row without it"
                )
            self._ledger.learn(self._place, kind, ask())

    @property
    def fields(self) -> Fields:
        """What is sent, as far as it is settled."""
        fields, known = dict(self.extra.body), self._noted
        if self.extra.effort and known.get("reasoning"):
            fields |= REASONING[known["reasoning"]](self.extra.effort)
        if self.schema is not None and known.get("schema") == "held":
            fields |= self.schema
        return fields

    @property
    def notes(self) -> tuple[str, ...]:
        """How the server was asked to reason, and what it does not do."""
        known, model = self._noted, self.settings.model
        notes = []
        if name := self.extra.effort and known.get("reasoning"):
            notes.append(f"effort={self.extra.effort} was sent to {model} as {name}")
            if not known.get(f"thought {self.extra.effort}"):
                notes.append(f"no reply of {model} showed a thought or counted one")
        if self.schema is not None and known.get("schema", "held") != "held":
            fate = known["schema"]
            notes.append(f"{model} holds no reply to a schema ({fate}): it was asked as in text")
        return tuple(notes)

    def saw(self, completion: Any) -> None:
        """Note a reply that shows a thought."""
        kind = f"thought {self.extra.effort}"
        if self.extra.effort and not self._noted.get(kind) and shows_thought(completion):
            self._ledger.learn(self._place, kind, "shown")

    def refused(self, refusal: Refusal | None) -> None:
        """Forget what the server took where it refuses it now."""
        if refusal is not None and refusal.field in {*REASONING, "response_format"}:
            kind = "schema" if refusal.field == "response_format" else "reasoning"
            self._ledger.learn(self._place, kind, "")

    @property
    def _noted(self) -> Mapping[str, str]:
        return self._ledger.notes(self._place)

    def _reasoning_field(self) -> str:
        effort, tried, words = self.extra.effort, list[str](), ""
        for name, written in REASONING.items():
            took = self._try(written(effort), EFFORTS[effort])
            if took.value is None:
                words = self._words_of(name, took.refusal)
                tried.append(f"{name} was refused")
                continue
            wrong = self._try(written(WRONG), EFFORTS[effort])
            # A field that takes any value is known where only it brings a thought.
            if wrong.value is None or (took.value.thought and not self._thinks_anyway()):
                return name
            tried.append(f"{name} was ignored")
        raise EndpointError(
            f"{self.settings.base_url}: {self.settings.model} has no field for effort: "
            f"{', '.join(tried)}{words}; leave effort out, or give the field itself by body=FILE"
        )

    def _thinks_anyway(self) -> bool:
        plain = self._try({}, EFFORTS[self.extra.effort])
        return plain.value is None or plain.value.thought

    def _words_of(self, name: str, refusal: Refusal | None) -> str:
        """Return what the server says; raises where it refuses another field, as temperature."""
        if refusal is None:
            return ""
        if refusal.field not in ("", *REASONING, "response_format"):
            raise EndpointError(
                f"{self.settings.base_url}: {self.settings.model} could not be asked for {name}: "
                f"{refusal.reason}{refusal.remedy}"
            )
        return f" (the server says: {refusal.words})" if refusal.words else ""

    def _schema_fate(self) -> str:
        """Return `held`, or why a reply to this server's model is held to no schema."""
        outcome = self._try(_held(YES_SCHEMA), SCHEMA_TOKENS)
        if outcome.value is None:
            self._words_of("response_format", outcome.refusal)
            return "response_format was refused"
        try:
            text = after_thought(outcome.value.text)
        except OpenThought:
            text = ""
        return "held" if text.startswith("{") or not text else "response_format was ignored"

    def _try(self, fields: Fields, limit: int) -> HttpOutcome[Taken]:
        settings = self.settings
        temperature = {"temperature": 0} if settings.sends_temperature else {}
        body = {"model": settings.model, "messages": ASKED, settings.limit_field: limit}
        request = HttpRequest(
            "chat/completions",
            body_of({**self.extra.body, **body, **temperature, **fields}),
            lambda it: Taken(read_completion(it, limit=limit)[0].text, shows_thought(it)),
            limit,
            streams=True,
        )
        client = HttpClient(settings, noun="chat completion", **self._parts)
        ((_, outcome),) = client.ask([request])
        if outcome.outage:
            raise EndpointError(
                f"{settings.base_url}: {settings.model} did not say what it takes "
                f"({', '.join(fields)}: {outcome.failure}); run the same command again"
            )
        return outcome


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a field is there twice")
    return made
