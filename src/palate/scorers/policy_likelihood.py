"""The response's probability under a policy, up to its first end token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from palate.errors import ModelError
from palate.prompts import prompt_hash, render
from palate.records import Encoded, Message, Prepared, ScorerInfo, Scores, Settings, Slate
from palate.scorers.endpoint_text import EndpointText, model_spec, text_of
from palate.scorers.likelihood import Likelihood
from palate.seeding import digest
from palate.session import Session

if TYPE_CHECKING:
    import torch


class PolicyLikelihood(Likelihood):
    """log p(y | x), where y is the response and its first end token.

    What a template writes behind the end token, such as a line break, is never drawn and is left
    out. No user has a part in it beyond what is shown.
    """

    def __init__(self, reference: str, session: Session, settings: Settings) -> None:
        self.local = text_of(model_spec("likelihood", reference), session, settings)
        what = "sum log p(response, first end token)"
        if isinstance(self.local, EndpointText):  # whose ends are no part of the tokenizer's files
            what = f"{what} of {sorted(self.local.reader.ends)}"
        elif more := self.local.reader.end_details:
            what = f"{what} also of {more['ends']}"
        self.info = self.local.info(what, prompt_hash("about.jinja"))

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the windows; the slate is nobody's."""
        return super().prepare(slate.replace(user=None, excluded=()), dropped)

    def value(self, logp: torch.Tensor) -> float:
        """Return the sum over the tokens."""
        return float(logp.double().sum())

    def encoded(self, slate: Slate) -> list[Encoded]:
        """Return, per candidate, the token ids of prompt and response, and where it starts."""
        messages = render(slate.question, slate.shown)
        return [self._drawn(messages, text) for text in slate.candidates]

    def _drawn(self, messages: tuple[Message, ...], text: str) -> Encoded:
        template, ends = self.local.template, self.local.reader.ends
        ids, start = template.closed(messages, text)
        stop = next((k for k in range(start, len(ids)) if ids[k] in ends), None)
        if stop is None:  # the template ends a turn otherwise, the policy by a token alone
            if not ends:
                raise ModelError(f"{self.local.reference}: no token is known to end a reply")
            ids, start = template.continuation(messages, text)
            ids, stop = (*ids, min(ends)), len(ids)
        prompt = template.answer_prompt(messages)
        if tuple(ids[:start]) == prompt:
            return Encoded(ids[: stop + 1], start)
        # A token across the seam is never drawn after this prompt.
        alone = template.tokenizer(template.safe(text), add_special_tokens=False)["input_ids"]
        return Encoded((*prompt, *alone, ids[stop]), len(prompt))


class TokenCount:
    """How many tokens a policy draws to write a response, the end token included."""

    def __init__(self, policy: PolicyLikelihood) -> None:
        self.policy = policy
        content = policy.local.reader.content
        self.info = ScorerInfo(fingerprint=digest("tokens of a response", content), exact=True)

    def prepare(self, slate: Slate) -> Prepared:
        """Read responses with nothing shown of anybody."""
        return Prepared(slate.without_context().replace(user=None, excluded=()))

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield the counts."""
        for k, slate in enumerate(slates):
            read = self.policy.encoded(self.prepare(slate).slate)
            yield k, Scores(values=tuple(float(len(it.ids) - it.start) for it in read))
