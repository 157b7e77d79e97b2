"""Cutting what is shown to a model's window, with the texts tokenised no oftener than needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palate.engines import Reader
from palate.prompts import as_text, cut_to_fit, fence
from palate.records import Encoded, Prepared, Slate, packed, without_worst

PROMPT = 1024
"""More characters than the longest of palate's prompts adds around its texts."""
FRAME = 64
"""More characters than the frame around one shown part has."""


def fit_slate(
    reader: Reader,
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
    if reader.window is None or not slate.shown or _surely_fits(reader, slate, reserve):
        return Prepared(slate)
    window = reader.window - reserve
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


def _surely_fits(reader: Reader, slate: Slate, reserve: int) -> bool:
    texts = [as_text(slate.question)]  # a judge's prompt quotes it
    texts += [text for part in slate.shown for text in (part.text, part.category)]
    counts = [_most_tokens(reader, text) for text in (*texts, *slate.candidates)]
    if None in counts:
        return False
    sizes = [count for count in counts if count is not None]
    n = len(slate.candidates)
    earlier = sum(part.kind == "turn" for part in slate.shown)
    turns = max(1, len(slate.question)) + 2 * earlier
    frame = reader.frame * turns + PROMPT + FRAME * len(slate.shown)
    both = sum(sorted(sizes[len(sizes) - n :])[-2:])
    return frame + sum(sizes[: len(sizes) - n]) + both + reserve <= (reader.window or 0)


def _most_tokens(reader: Reader, text: str) -> int | None:
    # A token of plain ASCII is at least one character; other texts may grow when a tokenizer
    # normalises them, by no more than it is known for.
    text = reader.template.safe(fence(text))
    if text.isascii():
        return len(text)
    factor = reader.tokens_per_byte
    return factor and factor * len(text.encode("utf-8", "surrogatepass"))
