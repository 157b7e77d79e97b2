"""A reward model behind a server: vLLM, SGLang, text-embeddings-inference or OpenRLHF."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any

from palate.engines.endpoints.rewards import FORMATS, Outputs, RewardInput
from palate.engines.http import (
    HttpClient,
    HttpOutcome,
    HttpRequest,
    HttpSettings,
    body_of,
    canonical,
    read_endpoint,
)
from palate.engines.http.groups import ask_groups
from palate.errors import ModelError, SpecError
from palate.prompts import prompt_hash, render
from palate.records import (
    Encoded,
    Message,
    Prepared,
    ScorerInfo,
    Scores,
    Settings,
    Slate,
    prepared_slates,
)
from palate.scorers.remote_text import RemoteText
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec

EXAMPLE = "classifier:api:MODEL?base_url=http://HOST:8000&server=vllm"
BATCH = 32
"""Responses in one request; more than text-embeddings-inference takes unless told."""
SUSPECT = 8
"""After so many outputs that all lie between 0 and 1 the log says so: four pairs.

Raw scores of a standard normal head do so in 2 of 10,000 sets."""
PROBABILITIES = "probabilities came back where raw scores were asked"
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
        self.local = self._local(spec, server, session, settings)
        self.client = HttpClient(
            http,
            noun="reward",
            models="v1/models",
            ledger=session.ledger,
            replies=session.replies,
        )
        self._first_scores: list[float] = []
        self.info = self._info(spec, server, http)

    def _local(
        self, spec: Spec, server: str, session: Session, settings: Settings
    ) -> RemoteText | None:
        if "tokenizer" in spec.options:
            tokenizer = Reference.parse(spec.options["tokenizer"])
            return RemoteText(tokenizer, "classifier", session, settings)
        if self.format.takes_messages:
            return None
        raise SpecError(
            f"{spec}: server={server} reads rendered text; name the model's tokenizer, as in "
            "&tokenizer=ORG/MODEL or &tokenizer=./folder"
        )

    def _info(self, spec: Spec, server: str, http: HttpSettings) -> ScorerInfo:
        details = {
            "server": server,
            "model": http.model,
            "base_url": http.base_url,
            "tokenizer": self.local.reader.content if self.local is not None else None,
            "prompt": prompt_hash("about.jinja"),
            **(self.local.reader.template_details if self.local is not None else {}),
        }
        return ScorerInfo(
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
        return self.local.fit(slate, self._encoded, dropped=dropped)

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
        """Yield a slate's scores when its last response is scored, as `score`."""
        step = self.batch if self.local is not None else 1
        groups = (
            [self._post(texts[first : first + step]) for first in range(0, len(texts), step)]
            for texts in map(self._texts, prepared)
        )
        for k, outcomes in ask_groups(self.client, groups):
            yield k, self._scores(outcomes, len(prepared[k].slate.candidates), step)

    def _post(self, texts: Sequence[RewardInput]) -> HttpRequest[list[Outputs]]:
        # A lone response in two texts goes twice: an embedding model then reads other tokens.
        sent = [*texts, *texts] if self.format.in_two and len(texts) == 1 else texts

        def read(said: Any) -> list[Outputs]:
            return self.format.read(said, sent)[: len(texts)]

        body = body_of(self.format.body(self.client.settings.model, sent))
        return HttpRequest(self.format.path, body, read, used=self.format.used)

    def _scores(self, outcomes: Sequence[HttpOutcome[list[Outputs]]], n: int, step: int) -> Scores:
        picked: list[tuple[float | None, str | None]] = []
        for outcome in outcomes:
            some = min(step, n - len(picked))
            missing = [(None, outcome.failure)] * some
            picked += missing if outcome.value is None else map(self._pick, outcome.value)
        values, reasons = zip(*picked, strict=True)
        return Scores(values=values, reasons=reasons, outage=any(it.outage for it in outcomes))

    def _pick(self, outputs: Outputs) -> tuple[float | None, str | None]:
        name = self._name(outputs)
        numbers = list(outputs.values())
        if not all(map(math.isfinite, numbers)):
            return None, "no finite number"
        if self.format.raw and len(numbers) > 1 and _sums_to_one(numbers):
            return None, PROBABILITIES
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
        if len(self._first_scores) >= SUSPECT and all(0 <= it <= 1 for it in self._first_scores):
            log.warning(
                "%s: the first %d scores all lie between 0 and 1; check that the server sends raw "
                "scores, not probabilities (docs/reward_servers.md)",
                self.canonical,
                len(self._first_scores),
            )

    def _encoded(self, slate: Slate) -> list[Encoded]:
        assert self.local is not None
        messages = render(slate.question, slate.shown)
        conversation = self.local.template.conversation
        return [Encoded(conversation(messages, text)) for text in slate.candidates]

    def _texts(self, read: Prepared) -> list[RewardInput]:
        slate = read.slate
        messages = render(slate.question, slate.shown)
        closed = [(*messages, Message(role="assistant", content=text)) for text in slate.candidates]
        if self.local is None:
            return [RewardInput(each) for each in closed]
        template = self.local.template
        prompt = self.local.unframed(template.text(messages, generation=True))
        texts = [
            RewardInput(
                each,
                self.local.unframed(template.text(each, generation=False)),
                prompt,
                tuple(encoded.ids),
            )
            for each, encoded in zip(closed, read.inputs or self._encoded(slate), strict=True)
        ]
        for text in texts if self.format.in_two else ():
            self.local.check_in_two(prompt, text.closed, text.ids)
        return texts


def _sums_to_one(numbers: Sequence[float]) -> bool:
    return min(numbers) >= 0 and abs(sum(numbers) - 1) < 1e-6
