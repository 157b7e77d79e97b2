"""A reward model behind a server: vLLM, SGLang, text-embeddings-inference or OpenRLHF."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any

from palate.engines import (
    FORMATS,
    HttpClient,
    HttpOutcome,
    HttpRequest,
    Outputs,
    RewardInput,
    ask_groups,
    body_of,
    canonical,
    read_endpoint,
)
from palate.errors import ModelError, SpecError
from palate.prompts import prompt_hash, render
from palate.records import Message, Prepared, ScorerInfo, Scores, Settings, Slate, prepared_slates
from palate.scorers.endpoint_text import RemoteText
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec

EXAMPLE = "classifier:api:MODEL?base_url=http://HOST:8000&server=vllm"
BATCH = 32
"""Responses in one request; more than text-embeddings-inference takes unless told."""
SUSPECT = 8
"""After so many outputs that all lie between 0 and 1 the log says so: four pairs.

Raw scores of a standard normal head do so in 2 of 10,000 sets."""
log = logging.getLogger(__name__)


class RewardServer:
    """The head's number for the conversation closed by the response, from `?server=…`.

    With `?tokenizer=REF` the conversation is rendered here, by the model's own template; without,
    the server renders messages, where it can. A head with several outputs needs `?head=…`: a
    number, or a label where the server names labels.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        options = {"server", "tokenizer", "head", "protocol", "batch"}
        reference = Reference.parse(spec.need_reference(EXAMPLE))
        if "server" not in spec.options:
            raise SpecError(f"{spec}: say which, as in ?server=vllm (known: {', '.join(FORMATS)})")
        server = spec.choice("server", FORMATS, "")
        self.format = FORMATS[server]
        http = read_endpoint(spec, reference.name, options, "http://HOST:PORT")
        if http.root.endswith("/v1/"):
            raise SpecError(
                f"{spec}: give the server's root, without /v1; a reward server answers at "
                f"/{self.format.path}"
            )
        self.canonical, self.head = canonical(spec), spec.options.get("head")
        self.batch = spec.number("batch", BATCH, least=1)
        self.local: RemoteText | None = None
        if "tokenizer" in spec.options:
            tokenizer = Reference.parse(spec.options["tokenizer"])
            self.local = RemoteText(tokenizer, "classifier", session, settings)
        elif not self.format.takes_messages:
            raise SpecError(
                f"{spec}: server={server} reads rendered text; name the model's tokenizer, as in "
                "&tokenizer=ORG/MODEL or &tokenizer=./folder"
            )
        self.client = HttpClient(
            http, noun="reward", models="v1/models", ledger=session.ledger, replies=session.replies
        )
        self._first_scores: list[float] = []
        reader = None if self.local is None else self.local.reader
        details = {
            "server": server,
            "model": http.model,
            "base_url": http.base_url,
            "tokenizer": None if reader is None else reader.content,
            "prompt": prompt_hash("about.jinja"),
            **({} if reader is None else reader.template_details),
        }
        self.info = ScorerInfo(
            fingerprint=digest("reward server", sorted(details.items()), self.head),
            details=details,
            exact=True,
            cuts=self.local is not None,
            log_odds=self.format.raw,
            protocol=spec.choice("protocol", ("palate", "paper"), "palate"),
        )

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the model's window, where a tokenizer tells it."""
        if self.local is None:
            return Prepared(slate)
        return self.local.fit(slate, self.local.conversations, dropped=dropped)

    def notes(self) -> tuple[str, ...]:
        """Say what texts were broken, and what the server does otherwise than it was asked."""
        broken = () if self.local is None else self.local.reader.broken_notes(self.local.since)
        return (*broken, *self.client.notes)

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per candidate."""
        return [
            text.closed or "\n\n".join(f"[{m.role}]\n{m.content}" for m in text.messages)
            for text in self._texts(self.prepare(slate))
        ]

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield a slate's scores when its last response is scored."""
        return self.score_prepared(prepared_slates(self, slates))

    def score_prepared(self, prepared: Sequence[Prepared]) -> Iterator[tuple[int, Scores]]:
        """Yield what `score` does."""
        step = self.batch if self.local is not None else 1
        groups = (
            [self._post(texts[first : first + step]) for first in range(0, len(texts), step)]
            for texts in map(self._texts, prepared)
        )
        for k, outcomes in ask_groups(self.client.ask, groups):
            yield k, self._scores(outcomes, len(prepared[k].slate.candidates), step)

    def _post(self, texts: Sequence[RewardInput]) -> HttpRequest[list[Outputs]]:
        # A lone response in two texts goes twice: an embedding model then reads other tokens.
        sent = [*texts, *texts] if self.format.in_two and len(texts) == 1 else texts

        def read(reply: Any) -> list[Outputs]:
            return self.format.read(reply, sent)[: len(texts)]

        body = body_of(self.format.body(self.client.settings.model, sent))
        return HttpRequest(self.format.path, body, read, used=self.format.used)

    def _scores(self, outcomes: Sequence[HttpOutcome[list[Outputs]]], n: int, step: int) -> Scores:
        picked: list[tuple[float | None, str | None]] = []
        for outcome in outcomes:
            some = min(step, n - len(picked))
            missing = [(None, outcome.failure)] * some
            picked += missing if outcome.value is None else map(self._pick, outcome.value)
        values, reasons = zip(*picked, strict=True)
        return Scores.of(values, reasons, outage=any(o.outage for o in outcomes))

    def _pick(self, outputs: Outputs) -> tuple[float | None, str | None]:
        name = self._name(outputs)
        numbers = list(outputs.values())
        if not all(map(math.isfinite, numbers)):
            return None, "no finite number"
        sums_to_one = min(numbers) >= 0 and abs(sum(numbers) - 1) < 1e-6
        if self.format.raw and len(numbers) > 1 and sums_to_one:
            return None, "probabilities came back where raw scores were asked"
        self._suspect(*numbers)
        return outputs[name], None

    def _name(self, outputs: Outputs) -> str:
        names = ", ".join(outputs)
        if self.head is None:
            if len(outputs) == 1:
                return next(iter(outputs))
            raise ModelError(
                f"{self.canonical}: the head has {len(outputs)} outputs ({names}); "
                f"say which one is the reward, as in ?head={next(iter(outputs), 0)}"
            )
        for name in (self.head, f"LABEL_{self.head}"):
            if name in outputs:
                return name
        raise ModelError(f"{self.canonical}: no output {self.head!r} (there are: {names})")

    def _suspect(self, *numbers: float) -> None:
        # One reward shows nothing; only many of them look like a sigmoid's.
        if not self.format.raw or len(self._first_scores) >= SUSPECT:
            return
        self._first_scores += numbers
        n = len(self._first_scores)
        if n >= SUSPECT and all(0 <= score <= 1 for score in self._first_scores):
            log.warning(
                f"{self.canonical}: the first {n} scores all lie between 0 and 1; check that the "
                "server sends raw scores, not probabilities (docs/reward_servers.md)"
            )

    def _texts(self, read: Prepared) -> list[RewardInput]:
        slate, local = read.slate, self.local
        messages = render(slate.question, slate.shown)
        closed = [(*messages, Message(role="assistant", content=text)) for text in slate.candidates]
        if local is None:
            return [RewardInput(messages) for messages in closed]
        prompt = local.unframed(local.template.text(messages, generation=True))
        texts: list[RewardInput] = []
        encoded = read.inputs or local.conversations(slate)
        for conversation, (ids, _) in zip(closed, encoded, strict=True):
            text = local.unframed(local.template.text(conversation, generation=False))
            texts.append(RewardInput(conversation, text, prompt, tuple(ids)))
            if self.format.in_two:
                local.check_in_two(prompt, text, ids)
        return texts
