"""The base of scorers on a model in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from palate.engines import ChatTemplate, LocalModel, Reader
from palate.engines.text.read_as import read_as
from palate.records import Encoded, Prepared, ScorerInfo, Scores, Settings, Slate
from palate.scorers.fitting import fit_slate
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference

if TYPE_CHECKING:
    import torch

Item = TypeVar("Item")


class LocalText:
    """A local model and its chat template, loaded at the first use.

    With `reads_as` it reads the token ids of that model, which it is compared with.
    """

    width: int | None = None
    """How many ids the softmax is over, where that is fewer than the model has."""
    written = 0
    """Tokens that a server writes behind what it reads."""

    def __init__(
        self,
        reference: Reference,
        head: str,
        session: Session,
        settings: Settings,
        reads_as: LocalText | None = None,
    ) -> None:
        self.reference, self.head = reference, head
        self.session, self.settings, self.reads_as = session, settings, reads_as

    @property
    def model(self) -> LocalModel:
        """The loaded model; do not keep it, the session may let go of it."""
        return self.session.model_of(self._own_reader, self.head)

    @cached_property
    def reader(self) -> Reader:
        """Tokenizer and configuration: all that planning needs; a finished run loads no model."""
        own, other = self._own_reader, self.reads_as
        return own if other is None else read_as(own, other.reader)

    @property
    def _own_reader(self) -> Reader:
        return self.session.reader(self.reference, self.settings)

    @property
    def template(self) -> ChatTemplate:
        """The model's chat template."""
        return self.reader.template

    def notes(self) -> tuple[str, ...]:
        """Say what loading gave rise to, which texts were broken, and where reading costs time."""
        mode, *loaded = self.session.of_loading(self.reader, self.head) or ("shared",)
        slow = () if mode.startswith("shared") else (f"{self.reference}: read in {mode}",)
        return (*loaded, *self.reader.broken_notes, *slow)

    def info(self, what: str, prompt: str, **more: object) -> ScorerInfo:
        """Return info whose fingerprint holds weights, precision, prompt and what is computed."""
        details = {**self.reader.details, "prompt": prompt}
        if self.head == "causal":  # what it reads stands behind a prompt
            details |= self.reader.answer_details
        if self.width is not None:
            details["softmax"] = self.width
        made = digest(what, *list(details.values())[1:])
        about = {"fingerprint": made, "details": details, "cuts": True, "notes": self.reader.notes}
        return ScorerInfo.model_validate({**about, **more})

    def fit(
        self,
        slate: Slate,
        encode: Callable[[Slate], Sequence[Encoded]],
        reserve: int = 0,
        dropped: int | None = None,
    ) -> Prepared:
        """Cut the shown parts to the model's window, as `fit_slate` does."""
        return fit_slate(self.reader, slate, encode, reserve + self.written, dropped)

    def likelihoods(
        self, groups: Iterable[Sequence[Encoded]], value: Callable[[torch.Tensor], float]
    ) -> Iterator[tuple[int, Scores]]:
        """Yield each group's scores: what `value` makes of log p of each response's tokens."""
        model = self.model
        return self.scores(
            groups,
            lambda encoded: len(encoded.ids),
            lambda fitting: (
                (k, [value(logp) for logp in of_group])
                for k, of_group in model.log_probabilities(fitting, self.width)
            ),
        )

    def scores(
        self,
        groups: Iterable[Sequence[Item]],
        length: Callable[[Item], int],
        run: Callable[[Iterable[Sequence[Item]]], Iterator[tuple[int, list[float]]]],
    ) -> Iterator[tuple[int, Scores]]:
        """Yield each group's scores; what is longer than the window is not run and unscored."""
        window = self.model.window or float("inf")
        fitting: dict[int, list[bool]] = {}

        def that_fit() -> Iterator[Sequence[Item]]:
            for k, group in enumerate(groups):
                fitting[k] = [length(item) <= window for item in group]
                yield [item for item, fits in zip(group, fitting[k], strict=True) if fits]

        for k, found in run(that_fit()):
            fits, values = fitting.pop(k), iter(found)
            few = tuple(next(values) if it else None for it in fits)
            yield k, Scores(values=few, reasons=tuple(None if it else "too long" for it in fits))
