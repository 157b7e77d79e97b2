"""What the scorers on a local language model share: loading, fitting a slate into the window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar

from palate.engines import ChatTemplate, LocalModel, Reader, load_local, read_mode_of
from palate.prompts import cut_to_fit, fence
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
from palate.specs import Reference

Item = TypeVar("Item")
PROMPT = 1024
"""More characters than the longest of palate's prompts adds around its texts."""
FRAME = 64
"""More characters than the frame around one shown part has."""


class LocalText:
    """A local model and its chat template, loaded at the first use."""

    def __init__(self, reference: Reference, head: str, settings: Settings) -> None:
        self.reference, self.head, self.settings = reference, head, settings

    @cached_property
    def model(self) -> LocalModel:
        """The loaded model."""
        return load_local(self.reference, self.head, self.settings)

    @cached_property
    def reader(self) -> Reader:
        """Tokenizer and configuration: all that planning needs; a finished run loads no model."""
        return Reader(self.reference, self.settings)

    @property
    def template(self) -> ChatTemplate:
        """The model's chat template."""
        return self.reader.template

    def notes(self) -> tuple[str, ...]:
        """Say so where the model is read in padded batches, which costs time and no accuracy."""
        read_mode = read_mode_of(self.reference, self.head, self.settings)
        if read_mode is None or read_mode.startswith("shared"):
            return ()
        return (f"{self.reference}: read in {read_mode}",)

    def info(self, what: str, prompt: str, **more: object) -> ScorerInfo:
        """Return info whose fingerprint holds weights, precision, prompt and what is computed."""
        content, dtype, device = self.reader.weights
        dtype = dtype.removeprefix("torch.")
        tokens, attention = self.settings.batch_tokens, self.settings.attention or "tree"
        details = {
            "reference": str(self.reference),
            "content": content,
            "dtype": dtype,
            "device": device,
            "batch_tokens": tokens,
            "attention": attention,
            "prompt": prompt,
        }
        made = digest(what, content, dtype, device, tokens, attention, prompt)
        return ScorerInfo.model_validate(
            {"fingerprint": made, "details": details, "cuts": True, **more}
        )

    def fit(
        self,
        slate: Slate,
        encode: Callable[[Slate], Sequence[Encoded]],
        reserve: int = 0,
        dropped: int | None = None,
    ) -> Prepared:
        """Cut the shown parts until the longest input that fits without them fits with them.

        A candidate that is too long even with nothing shown does not shorten what is shown for the
        others: it alone is unscored. Nothing is tokenised where bytes prove that all fits, or where
        an earlier call told what is `dropped`.
        """
        if dropped is not None:
            return Prepared(without_worst(slate, dropped), dropped)
        if self.reader.window is None or not slate.shown or self._surely_fits(slate, reserve):
            return Prepared(slate)
        window = self.reader.window - reserve
        n = len(slate.shown)
        encoded = {n: encode(slate)}  # by the number of parts shown
        if encoded[n] and all(len(it.ids) <= window for it in encoded[n]):
            return Prepared(slate, 0, packed(encoded[n]))
        bare = slate.without_context()
        encoded[0] = encode(bare)
        possible = [k for k, it in enumerate(encoded[0]) if len(it.ids) <= window]

        def longest(cut: Slate) -> int:
            if len(cut.shown) not in encoded:
                encoded[len(cut.shown)] = encode(cut)
            return max(len(encoded[len(cut.shown)][k].ids) for k in possible)

        cut = cut_to_fit(slate, longest, window) if possible else bare
        return Prepared(cut, n - len(cut.shown), packed(encoded[len(cut.shown)]))

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
            yield (
                k,
                Scores(
                    values=tuple(next(values) if it else None for it in fits),
                    reasons=() if all(fits) else tuple(None if it else "too long" for it in fits),
                ),
            )

    def _surely_fits(self, slate: Slate, reserve: int) -> bool:
        texts = [m.content for m in slate.question]
        texts += [text for part in slate.shown for text in (part.text, part.category)]
        counts = [self._most_tokens(text) for text in (*texts, *slate.candidates)]
        if None in counts:
            return False
        sizes = [count for count in counts if count is not None]
        n = len(slate.candidates)
        turns = max(1, len(slate.question))
        frame = self.reader.frame * turns + PROMPT + FRAME * len(slate.shown)
        both = sum(sorted(sizes[len(sizes) - n :])[-2:])
        return frame + sum(sizes[: len(sizes) - n]) + both + reserve <= (self.reader.window or 0)

    def _most_tokens(self, text: str) -> int | None:
        # A token of plain ASCII is at least one character; other texts may grow when a tokenizer
        # normalises them, by no more than it is known for.
        text = self.template.safe(fence(text))
        if text.isascii():
            return len(text)
        factor = self.reader.tokens_per_byte
        return factor and factor * len(text.encode("utf-8", "surrogatepass"))
