"""Texts of a model in this process: read by its template, cut to its window, scored by it.

No text is tokenised oftener than needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from math import inf
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, TypeVar

from palate.engines import ChatTemplate, LocalModel, Reader, read_as
from palate.prompts import as_text, cut_to_fit, fence, read_candidates
from palate.records import (
    Encoded,
    Prepared,
    ScorerInfo,
    Scores,
    Settings,
    Slate,
    packed,
    without_worst,
)
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference

if TYPE_CHECKING:
    import torch

Item = TypeVar("Item")
Encode = Callable[[Slate], Sequence[Encoded]]
PROMPT = 1024
"""More characters than the longest of palate's prompts adds around its texts."""
FRAME = 64
"""More characters than the frame around one shown part has."""


class LocalText:
    """A local model and its template, loaded at first use; it reads the ids of `reads_as`."""

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
        self.since = monotonic_ns()
        """What was read before is no part of its notes: a session's readers serve many runs."""

    @property
    def model(self) -> LocalModel:
        """The loaded model; do not keep it, the session may let go of it."""
        return self.session.model_of(self._model_reader, self.head)

    @cached_property
    def reader(self) -> Reader:
        """Tokenizer and configuration: all that planning needs; a finished run loads no model."""
        reader, other = self._model_reader, self.reads_as
        return reader if other is None else read_as(reader, other.reader)

    @property
    def _model_reader(self) -> Reader:
        return self.session.reader(self.reference, self.settings)

    @property
    def template(self) -> ChatTemplate:
        """The model's chat template."""
        return self.reader.template

    def notes(self) -> tuple[str, ...]:
        """Say what loading gave rise to, which texts were broken, and where reading costs time."""
        mode, *loaded = self.session.of_loading(self.reader, self.head) or ("shared",)
        slow = () if mode.startswith("shared") else (f"{self.reference}: read in {mode}",)
        return (*loaded, *self.reader.broken_notes(self.since), *slow)

    def info(self, what: str, prompt: str, **more: object) -> ScorerInfo:
        """Return info whose fingerprint holds weights, precision, prompt and what is computed."""
        details = {**self.reader.details, "prompt": prompt}
        if self.head == "causal":  # what it reads stands behind a prompt
            details |= self.reader.answer_details
        if self.width is not None:
            details["softmax"] = self.width
        made = digest(what, *list(details.values())[1:])
        about = {"fingerprint": made, "details": details, "cuts": True, "notes": self.reader.notes}
        about["contexts"] = trained_contexts(self.reader.folder)
        return ScorerInfo.model_validate({**about, **more})

    def fit(
        self, slate: Slate, encode: Encode, reserve: int = 0, dropped: int | None = None
    ) -> Prepared:
        """Cut the shown parts to the model's window, as `fit_slate` does."""
        return fit_slate(self.reader, slate, encode, reserve + self.written, dropped)

    def conversations(self, slate: Slate) -> list[Encoded]:
        """Return each candidate's conversation, closed by it."""
        return [Encoded(ids) for ids in read_candidates(slate, self.template.conversation)]

    def likelihoods(
        self, groups: Iterable[Sequence[Encoded]], value: Callable[[torch.Tensor], float]
    ) -> Iterator[tuple[int, Scores]]:
        """Yield each group's scores: what `value` makes of log p of each response's tokens."""
        model = self.model

        def run(fitting: Iterable[Sequence[Encoded]]) -> Iterator[tuple[int, list[float]]]:
            for k, logps in model.log_probabilities(fitting, self.width):
                yield k, [value(logp) for logp in logps]

        return self.scores(groups, lambda encoded: len(encoded.ids), run)

    def scores(
        self,
        groups: Iterable[Sequence[Item]],
        length: Callable[[Item], int],
        run: Callable[[Iterable[Sequence[Item]]], Iterator[tuple[int, list[float]]]],
    ) -> Iterator[tuple[int, Scores]]:
        """Yield each group's scores; what is longer than the window is not run and unscored."""
        window = self.model.window or inf
        fitting: dict[int, list[bool]] = {}

        def that_fit() -> Iterator[Sequence[Item]]:
            for k, group in enumerate(groups):
                fitting[k] = [length(item) <= window for item in group]
                yield [item for item, fits in zip(group, fitting[k], strict=True) if fits]

        for k, numbers in run(that_fit()):
            some, number = fitting.pop(k), iter(numbers)
            values = [next(number) if fits else None for fits in some]
            reasons = [None if fits else "too long" for fits in some]
            yield k, Scores.of(values, reasons)


def trained_contexts(folder: Path) -> tuple[str, ...]:
    """Return the contexts that `palate train` showed the model of this folder; mostly none."""
    with suppress(OSError, ValueError, AttributeError):
        facts = json.loads((folder / "palate.json").read_text(encoding="utf-8"))
        return tuple(facts.get("contexts", ()))
    return ()


def fit_slate(
    reader: Reader, slate: Slate, encode: Encode, reserve: int = 0, dropped: int | None = None
) -> Prepared:
    """Cut the shown parts until the longest input that fits without them fits with them.

    A candidate that is too long even with nothing shown does not shorten what is shown for the
    others: it alone is unscored. Nothing is tokenised where bytes prove that all fits, or where
    an earlier call told what is `dropped`.
    """
    if dropped is not None:
        return Prepared(without_worst(slate, dropped), dropped)
    if reader.window is None or not slate.shown or _surely_fits(reader, slate, reserve):
        return Prepared(slate)
    window = reader.window - reserve
    n, bare = len(slate.shown), slate.without_context()
    encoded = {n: encode(slate)}  # by the number of parts shown
    if encoded[n] and all(len(ids) <= window for ids, _ in encoded[n]):
        return Prepared(slate, 0, packed(encoded[n]))
    encoded[0] = encode(bare)
    possible = [k for k, (ids, _) in enumerate(encoded[0]) if len(ids) <= window]

    def longest(cut: Slate) -> int:
        if len(cut.shown) not in encoded:
            encoded[len(cut.shown)] = encode(cut)
        return max(len(encoded[len(cut.shown)][k].ids) for k in possible)

    cut = cut_to_fit(slate, longest, window) if possible else bare
    return Prepared(cut, n - len(cut.shown), packed(encoded[len(cut.shown)]))


def _surely_fits(reader: Reader, slate: Slate, reserve: int) -> bool:
    texts = [as_text(slate.question)]  # a judge's prompt quotes it
    texts += [text for part in slate.shown for text in (part.text, part.category)]
    before = [_most_tokens(reader, text) for text in texts]
    responses = [_most_tokens(reader, text) for text in slate.candidates]
    earlier = sum(part.kind == "turn" for part in slate.shown)
    turns = max(1, len(slate.question)) + 2 * earlier
    frame = reader.frame * turns + PROMPT + FRAME * len(slate.shown)
    both = sum(sorted(responses)[-2:])
    return frame + sum(before) + both + reserve <= (reader.window or 0)


def _most_tokens(reader: Reader, text: str) -> float:
    # A token of plain ASCII is at least one character; other texts may grow when a tokenizer
    # normalises them, by no more than it is known for.
    text = reader.template.safe(fence(text))
    if text.isascii():
        return len(text)
    factor = reader.tokens_per_byte
    return inf if factor is None else factor * len(text.encode("utf-8", "surrogatepass"))
