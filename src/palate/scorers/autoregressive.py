"""A reward model that gives every token a reward: its own log-probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palate.guidance import TokenGuide
from palate.prompts import prompt_hash, render
from palate.records import Encoded, Settings, Slate
from palate.scorers.causal import LocalText
from palate.scorers.endpoint_text import text_of
from palate.scorers.guiding import LanguageModelGuide, TokenTerm
from palate.scorers.likelihood import Likelihood
from palate.session import Session
from palate.specs import Spec

if TYPE_CHECKING:
    import torch


class Autoregressive(Likelihood):
    """A reward model that rates token by token (GenARM).

    r(x, y) = β Σ_t log π_r(y_t | x, y_<t), the end of turn included (GenARM, section 3.1).

    β only scales; a margin is a log-odds, and calibrated as one, where `?beta=` gives the β of
    training.
    """

    def __init__(
        self,
        spec: Spec,
        session: Session,
        settings: Settings,
        reads_as: LocalText | None = None,
        width: int | None = None,
    ) -> None:
        spec.need_reference("autoregressive:./models/my-arm")
        self.beta = spec.positive("beta", 1.0)
        self.local = text_of(spec, session, settings, {"beta"}, reads_as)
        self.local.width = width
        self.info = self.local.info(
            f"{self.beta:g} sum log p(response, end of turn)",
            prompt_hash("about.jinja"),
            log_odds="beta" in spec.options,
        )

    def token_guide(self) -> TokenGuide:
        """Return the reward of a next token."""
        return LanguageModelGuide([TokenTerm(self.beta, self)])

    def value(self, logp: torch.Tensor) -> float:
        """Return the sum of the tokens' rewards."""
        return self.beta * float(logp.double().sum())

    def encoded(self, slate: Slate) -> list[Encoded]:
        """Return, per candidate, the token ids of the closed conversation, and where it starts."""
        messages = render(slate.question, slate.shown)
        return [self.local.template.closed(messages, text) for text in slate.candidates]

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per candidate."""
        cut = self.prepare(slate).slate
        messages = render(cut.question, cut.shown)
        return [self.local.template.closed_answer(messages, text) for text in cut.candidates]
