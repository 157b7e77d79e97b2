"""Fields of a chat request beside palate's own: how long to reason, a reply's schema, a file's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from palate.engines.http_client import ClientParts, HttpClient
from palate.engines.http_ledger import Ledger
from palate.engines.http_replies import read_completion, shows_thought
from palate.engines.http_requests import HttpOutcome, HttpRequest, HttpSettings, body_of
from palate.errors import EndpointError, UsageError, first_line
from palate.marks import OpenThought, after_thought
from palate.seeding import canonical_json
from palate.specs import Spec, SpecFile

Fields = Mapping[str, Any]
EFFORTS = {"low": 2_048, "medium": 8_192, "high": 16_384}
"""Tokens of a reply and its thought, unless `?max_tokens=` says otherwise."""
WRONG = "palate"
"""An effort that no server has: one that accepts it ignores the field."""
REASONING: dict[str, Callable[[str], Fields]] = {
    "reasoning_effort": lambda effort: {"reasoning_effort": effort},
    "reasoning": lambda effort: {"reasoning": {"effort": effort}},
    "thinking": lambda effort: {
        "thinking": {"type": "enabled", "budget_tokens": EFFORTS[effort] // 2}
        if effort in EFFORTS
        else {"type": effort}
    },
}
"""How servers call the effort, in the order in which they are tried."""
OWNED = {
    *("model", "messages", "temperature", "top_p", "seed", "n", "stop", "stream", "stream_options"),
    *("max_tokens", "max_completion_tokens", "logprobs", "top_logprobs", "response_format"),
}
"""Fields that palate sends, or reads replies by."""
ASKED = [{"role": "user", "content": "Answer with the one word: tea"}]


def reply_limit(spec: Spec, default: int) -> int:
    """Return the most tokens of a reply; a spec with an effort may write more by default."""
    usual = EFFORTS.get(spec.options.get("effort", ""), default)
    return spec.number("max_tokens", usual, least=1)


def schema_of(**properties: Sequence[str | int] | None) -> Fields:
    """Return the field that holds a reply to these properties: one of a few values, or a text."""
    typed: dict[str, Fields] = {}
    for name, values in properties.items():
        kind = "integer" if values and isinstance(values[0], int) else "string"
        typed[name] = {"type": kind} | ({"enum": [*values]} if values else {})
    schema = {"type": "object", "properties": typed, "required": [*typed]}
    named = {"name": "reply", "strict": True, "schema": schema | {"additionalProperties": False}}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


class ExtraFields:
    """What a spec adds to requests; what the server takes is asked once, kept for later runs."""

    def __init__(self, spec: Spec, settings: HttpSettings, parts: ClientParts) -> None:
        self.settings = settings
        self.schema: Fields | None = None
        """What replies are held to, where the server can."""
        self.effort = spec.choice("effort", EFFORTS, "low") if "effort" in spec.options else ""
        file, owned = spec.file("body"), OWNED | set(REASONING if self.effort else ())
        self.body = _read(file, owned) if file else {}
        stated = {"effort": self.effort, "body": file.hash if file else ""}
        self.details = {name: value for name, value in stated.items() if value}
        self._cache, self._ledger = parts.get("replies"), parts.get("ledger") or Ledger()
        self._parts = ClientParts(**{**parts, "replies": None, "ledger": self._ledger})
        self._place = f"{settings.place} fields"

    @property
    def fields(self) -> Fields:
        """What is sent; raises `EndpointError` for no field of an effort, and for no answer."""
        fields = dict(self.body)
        if self.effort:
            fields |= REASONING[self._known("reasoning", self._reasoning)](self.effort)
        if self.schema and self._known("schema", self._holding) == "held":
            fields |= self.schema
        return fields

    @property
    def notes(self) -> tuple[str, ...]:
        """How the server was asked to reason, and what it does not do."""
        known, model, notes = self._ledger.notes(self._place), self.settings.model, list[str]()
        if self.effort and known.get("reasoning"):
            notes.append(f"effort={self.effort} was sent to {model} as {known['reasoning']}")
            if not known.get(f"thought {self.effort}"):
                notes.append(f"no reply of {model} showed a thought or counted its tokens")
        if self.schema and known.get("schema", "held") != "held":
            why = known["schema"]
            notes.append(f"{model} holds no reply to a schema ({why}); it was asked as in text")
        return tuple(notes)

    def saw(self, completion: Any) -> None:
        """Note a reply that shows a thought."""
        kind = f"thought {self.effort}"
        noted = not self.effort or self._ledger.notes(self._place).get(kind)
        if not noted and shows_thought(completion):
            self._ledger.learn(self._place, kind, "shown")

    def forget(self) -> None:
        """Ask anew what the server takes: it has refused what it took."""
        for kind in ("reasoning", "schema"):
            self._ledger.learn(self._place, kind, "")

    def _known(self, kind: str, ask: Callable[[], str]) -> str:
        if not (known := self._ledger.notes(self._place).get(kind)):
            if self._cache is not None and self._cache.requests is not None:
                raise UsageError(
                    f"{self.settings.base_url}: --requests sends nothing, and which field of "
                    f"{kind} the server takes is not known: run one row without it first"
                )
            known = ask()
            self._ledger.learn(self._place, kind, known)
        return known

    def _reasoning(self) -> str:
        tried, words = list[str](), ""
        for name, written in REASONING.items():
            took = self._try(written(self.effort))
            if took.value is None:
                words = took.refusal.words if took.refusal else ""
                tried.append(f"{name} was refused")
                continue
            if self._try(written(WRONG)).value is None:
                return name
            # A field that takes any value is known where only it brings a thought.
            if took.value[1] and (plain := self._try({}).value) and not plain[1]:
                return name
            tried.append(f"{name} was ignored")
        why = f" (the server says: {words})" if words else ""
        raise EndpointError(
            f"{self.settings.base_url}: {self.settings.model} has no field for effort: "
            f"{', '.join(tried)}{why}; leave effort out, or give the field itself by body=FILE"
        )

    def _holding(self) -> str:
        """Return `held`, or why no reply is held to a schema."""
        took, text = self._try(schema_of(answer=["yes", "no"])), ""
        if took.value is None:
            return "response_format was refused"
        with suppress(OpenThought):
            text = after_thought(took.value[0])
        return "held" if text.startswith("{") or not text else "response_format was ignored"

    def _try(self, fields: Fields) -> HttpOutcome[tuple[str, bool]]:
        """Return the text that came back and whether a thought did; None for what is refused."""
        settings, limit = self.settings, EFFORTS[self.effort or "low"]
        body = {"model": settings.model, "messages": ASKED, settings.limit_field: limit}
        if settings.sends_temperature:
            body["temperature"] = 0
        request = HttpRequest(
            "chat/completions",
            body_of({**body, **self.body, **fields}),
            lambda it: (read_completion(it, limit=limit)[0].text, shows_thought(it)),
            limit,
            streams=True,
        )
        client = HttpClient(settings, noun="chat completion", **self._parts)
        ((_, outcome),) = client.ask([request])
        refusal, where = outcome.refusal, f"{settings.base_url}: {settings.model}"
        if outcome.outage:
            raise EndpointError(f"{where} did not answer ({outcome.failure}); run it again")
        if refusal and refusal.field not in ("", *REASONING, *fields):  # such as temperature
            raise EndpointError(f"{where}: {refusal.reason}{refusal.remedy}")
        return outcome


def _read(file: SpecFile, owned: set[str]) -> dict[str, Any]:
    try:
        fields = json.loads(file.text, object_pairs_hook=_once)
        canonical_json(fields)  # refuses NaN and infinity
    except (ValueError, RecursionError) as error:
        raise file.error(f"no JSON: {first_line(error)}") from error
    if not isinstance(fields, dict) or not fields:
        raise file.error('expected a JSON object of fields, such as {"top_k": 20}')
    if taken := sorted(owned & fields.keys()):
        whose = "what effort= sends" if taken[0] in REASONING else "palate's own"
        raise file.error(f"{taken[0]} is {whose}; leave it out")
    return fields


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(made := dict(pairs)) < len(pairs):
        raise ValueError("a field is there twice")
    return made
