"""A reward model with a sequence-classification head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

from palate.errors import ModelError
from palate.prompts import prompt_hash, render
from palate.records import Scores, Settings, Slate
from palate.scorers.causal import LocalText
from palate.specs import Reference, Spec

EXAMPLE = "classifier:./models/my-rm"


class Classifier:
    """The head's number for the conversation closed by the response, computed in float32.

    The head reads the token that the model itself would read: the last one, or, where `pad` is a
    token that also ends the conversation, the last one that is not `pad` (the model was trained so,
    and the report says it). A head with more than one output needs `?head=N`.
    """

    def __init__(self, spec: Spec, settings: Settings) -> None:
        spec.only({"head", "protocol"})
        self.spec = str(spec)
        reference = Reference.parse(spec.need_reference(EXAMPLE))
        self.local = LocalText(reference, "classifier", settings)
        self.output = spec.number("head", 0) if "head" in spec.options else None
        self.traits = self.local.traits(
            f"classifier head {self.output}",
            prompt_hash("about.jinja"),
            log_odds=True,
            protocol=spec.choice("protocol", ("palate", "paper"), "palate"),
        )

    @cached_property
    def _head(self) -> int:
        outputs = self.local.model.model.config.num_labels
        if self.output is None and outputs > 1:
            names = ", ".join(map(str, self.local.model.model.config.id2label.values()))
            raise ModelError(
                f"{self.spec}: the head has {outputs} outputs ({names}); "
                "say which one is the reward, as in ?head=0"
            )
        if (self.output or 0) >= outputs:
            raise ModelError(f"{self.spec}: the head has {outputs} outputs, numbered from 0")
        return self.output or 0

    def reads(self, slate: Slate) -> Slate:
        """Cut what is shown to the model's window."""
        return self.local.fit(slate, lambda cut: [len(ids) for ids in self._encoded(cut)])

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield rewards; a slate's candidates share their prompt's cache."""
        _ = self._reads_one_token  # asked once, before there are threads
        encoded = (self._encoded(self.reads(slate)) for slate in slates)
        jobs = ((k, partial(self._score, each)) for k, each in enumerate(encoded))
        return self.local.model.spread(jobs)

    def _score(self, sequences: Sequence[Sequence[int]]) -> Scores:
        window = self.local.model.window or float("inf")
        fits = [j for j, ids in enumerate(sequences) if len(ids) <= window]
        values: list[float | None] = [None] * len(sequences)
        reasons: list[str | None] = ["too long"] * len(sequences)
        for j, value in self._rewards([sequences[j] for j in fits]) if fits else ():
            values[fits[j]], reasons[fits[j]] = value, None
        return Scores(values=tuple(values), reasons=tuple(reasons) if any(reasons) else ())

    def _rewards(self, sequences: Sequence[Sequence[int]]) -> Iterator[tuple[int, float]]:
        if not self._reads_one_token:
            for j, logits in self.local.model.pooled(sequences):  # such as encoders
                yield j, float(logits[self._head])
            return
        yield from self._read_off(sequences)

    def _read_off(self, sequences: Sequence[Sequence[int]]) -> Iterator[tuple[int, float]]:
        model, head = self.local.model, self._head
        linear = model.model.score
        weight = linear.weight[head].float()
        bias = 0.0 if linear.bias is None else float(linear.bias[head])
        read = [self.read_position(ids) for ids in sequences]
        for j, hidden in model.tail(sequences, read, hidden=True):
            yield j, float(hidden[0] @ weight) + bias

    @cached_property
    def _reads_one_token(self) -> bool:
        # Asked of the model itself: is its reward what a linear head makes of that one token?
        model = self.local.model
        if not isinstance(getattr(model.model, "score", None), model.torch.nn.Linear):
            return False
        ids = self._encoded(_HELLO)[0]
        ((_, own),) = model.pooled([ids])
        ((_, read),) = self._read_off([ids])
        tolerance = 1e-3 if model.dtype == model.torch.float32 else 0.05
        return abs(read - float(own[self._head])) <= tolerance * (1 + abs(read))

    def read_position(self, ids: Sequence[int]) -> int:
        """Return the position of the token the head reads."""
        pad = self.local.reader.config.pad_token_id
        return next((k for k in range(len(ids) - 1, -1, -1) if ids[k] != pad), len(ids) - 1)

    def notes(self) -> tuple[str, ...]:
        """Say so where the head does not read the last token."""
        ids = self._encoded(_HELLO)[0]
        if self.read_position(ids) == len(ids) - 1:
            return ()
        return (f"{self.spec}: pad also ends the turn, so the head reads the token before it",)

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per candidate."""
        cut = self.reads(slate)
        messages = render(cut.question, cut.shown)
        return [self.local.template.closed_text(messages, text) for text in cut.candidates]

    def _encoded(self, slate: Slate) -> list[Any]:
        messages = render(slate.question, slate.shown)
        return [self.local.template.conversation(messages, text) for text in slate.candidates]


_HELLO = Slate.model_validate(
    {"question": [{"role": "user", "content": "Hello?"}], "candidates": ["Hello!", "No."]}
)
