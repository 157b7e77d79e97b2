"""A reward model with a sequence-classification head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from palate.engines import TokenSpan
from palate.errors import ModelError
from palate.guidance import PrefixGuide
from palate.prompts import prompt_hash, read_candidates
from palate.records import Message, Prepared, Scores, Settings, Slate, prepared_slates, unpacked
from palate.scorers.guiding import StateGuide
from palate.scorers.local_text import LocalText
from palate.session import Session
from palate.specs import Reference, Spec

if TYPE_CHECKING:
    from torch import Tensor

Ids = Sequence[int]


class Classifier:
    """A reward model with a classification head.

    The head's number for the conversation closed by the response, computed in float32.

    The head reads the token that the model itself would read: the last one, or, where `pad` is a
    token that also ends the conversation, the last one that is not `pad` (the model was trained so,
    and the report says it). A head with more than one output needs `?head=N`.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.only({"head", "protocol"})
        self.spec = str(spec)
        reference = Reference.parse(spec.need_reference("classifier:./models/my-rm"))
        self.local = LocalText(reference, "classifier", session, settings)
        self.output = spec.number("head", 0) if "head" in spec.options else None
        self.info = self.local.info(
            f"classifier head {self.output}",
            prompt_hash("about.jinja"),
            log_odds=True,
            protocol=spec.choice("protocol", ("palate", "paper"), "palate"),
        )

    @cached_property
    def _head(self) -> int:
        width = len(self._own_logits)
        if (self.output is None and width > 1) or (self.output or 0) >= width:
            labels = self.local.model.model.config.id2label
            names = ", ".join(str(labels.get(k, "unnamed")) for k in range(width))
            raise ModelError(
                f"{self.spec}: the head has {width} output{'s' * (width > 1)} ({names}); "
                "say which one is the reward, as in ?head=0"
            )
        return self.output or 0

    @cached_property
    def _own_logits(self) -> list[float]:
        # Of one conversation; a configuration's `num_labels` need not be their number.
        ((_, logits),) = self.local.model.pooled([self._hello])
        return [float(value) for value in logits]

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the model's window."""
        return self.local.fit(slate, self.local.conversations, dropped=dropped)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield rewards; a slate's candidates share their prompt's cache."""
        return self.score_prepared(prepared_slates(self, slates))

    def score_prepared(self, prepared: Sequence[Prepared]) -> Iterator[tuple[int, Scores]]:
        """Yield what `score` does."""
        groups = (
            [ids for ids, _ in unpacked(read.inputs)] or self._encoded(read.slate)
            for read in prepared
        )
        return self.local.scores(groups, len, self._rewards)

    def score_rendered(self, texts: Sequence[str]) -> Scores:
        """Return rewards of conversations that the model's chat template has rendered already."""
        ids = [self.local.template.rendered(text, self._hello) for text in texts]
        scores = dict(self.local.scores([[text] for text in ids], len, self._rewards))
        in_order = [scores[k] for k in range(len(texts))]
        values = [text.values[0] for text in in_order]
        return Scores.of(values, (text.reason(0) for text in in_order))

    def _rewards(self, groups: Iterable[Sequence[Ids]]) -> Iterator[tuple[int, list[float]]]:
        if self._reads_one_token:
            yield from self._read_off(groups)
            return
        for k, group in enumerate(groups):  # such as encoders
            pooled = dict(self.local.model.pooled(group))
            yield k, [float(pooled[j][self._head]) for j in range(len(group))]

    def _read_off(self, groups: Iterable[Sequence[Ids]]) -> Iterator[tuple[int, list[float]]]:
        weight, bias = self._linear()
        wanted = ([self._span(ids) for ids in group] for group in groups)
        for k, values in self.local.model.read(wanted, lambda hidden, _: hidden.float() @ weight):
            yield k, [float(value[0]) + bias for value in values]

    def _span(self, ids: Ids) -> TokenSpan:
        read = self.read_position(ids)
        return TokenSpan(ids, read, read + 1)

    @cached_property
    def _reads_one_token(self) -> bool:
        # Asked of the model itself: is its reward what a linear head makes of that one token?
        model = self.local.model
        linear = getattr(model.model, "score", None)
        pooled, width = self._own_logits[self._head], len(self._own_logits)
        if not isinstance(linear, model.torch.nn.Linear) or linear.out_features != width:
            return False
        ((_, (read,)),) = self._read_off([[self._hello]])
        tolerance = 1e-3 if model.dtype == model.torch.float32 else 0.05
        return abs(read - pooled) <= tolerance * (1 + abs(read))

    def prefix_guide(self) -> PrefixGuide | None:
        """Return the reward of what is written so far; None for a model that pools itself."""
        if not self._reads_one_token:
            return None
        return StateGuide(self.local.reader, lambda: self.local.model, self.read_position, self._of)

    def _of(self, outputs: Tensor, slates: Sequence[Slate]) -> Tensor:
        weight, bias = self._linear()
        return outputs.float() @ weight + bias

    def _linear(self) -> tuple[Tensor, float]:
        linear = self.local.model.model.score
        bias = 0.0 if linear.bias is None else float(linear.bias[self._head])
        return linear.weight[self._head].float(), bias

    def read_position(self, ids: Ids) -> int:
        """Return the position of the token the head reads."""
        pad = self.local.reader.config.pad_token_id
        return next((k for k in range(len(ids) - 1, -1, -1) if ids[k] != pad), len(ids) - 1)

    def notes(self) -> tuple[str, ...]:
        """Say so where the head does not read the last token, or batches are padded."""
        ids, notes = self._hello, self.local.notes()
        if self.read_position(ids) == len(ids) - 1:
            return notes
        return (
            f"{self.spec}: pad also ends the turn, so the head reads the token before it",
            *notes,
        )

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per candidate."""
        return read_candidates(self.prepare(slate).slate, self.local.template.closed_text)

    def _encoded(self, slate: Slate) -> list[Ids]:
        return [ids for ids, _ in self.local.conversations(slate)]

    @property
    def _hello(self) -> Ids:
        # One conversation, of which questions are asked that concern all of them.
        messages = (Message(role="user", content="Hello?"),)
        return self.local.template.conversation(messages, "Hello!")
