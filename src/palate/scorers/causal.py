"""What the scorers on a local language model share: loading, fitting a slate into the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from palate.engines import ChatTemplate, LocalModel, load_local
from palate.models import choose_device, choose_dtype, resolve
from palate.prompts import cut_to_fit
from palate.records import Settings, Slate, Traits
from palate.seeding import digest
from palate.specs import Reference

SPARE = 512
"""Bytes left for what templates add, where bytes already prove that a slate fits."""


class LocalText:
    """A local model and its chat template, loaded at the first use."""

    def __init__(self, reference: Reference, head: str, settings: Settings) -> None:
        self.reference, self.head, self.settings = reference, head, settings

    @cached_property
    def model(self) -> LocalModel:
        """The loaded model."""
        return load_local(self.reference, self.head, self.settings)

    @cached_property
    def template(self) -> ChatTemplate:
        """The model's chat template."""
        return ChatTemplate(self.model.tokenizer)

    def traits(self, what: str, prompt: str, **more: object) -> Traits:
        """Return traits whose fingerprint holds weights, precision, prompt and what is computed."""
        folder = resolve(self.reference)
        device = choose_device(self.settings.device)
        dtype = str(choose_dtype(self.settings.dtype, device)).removeprefix("torch.")
        kind = device.split(":", maxsplit=1)[0]
        tokens = self.settings.batch_tokens
        details = {
            "reference": str(self.reference),
            "content": folder.content,
            "dtype": dtype,
            "device": kind,
            "batch_tokens": tokens,
            "prompt": prompt,
        }
        made = digest(what, folder.content, dtype, kind, tokens, prompt)
        return Traits.model_validate(
            {"fingerprint": made, "details": details, "cuts": True, **more}
        )

    def fit(
        self, slate: Slate, lengths: Callable[[Slate], Sequence[int]], reserve: int = 0
    ) -> Slate:
        """Cut the shown parts until the longest input that fits without them fits with them.

        A candidate that is too long even with nothing shown does not shorten what is shown for the
        others: it alone is unscored.
        """
        if self.model.window is None or not slate.shown:
            return slate
        window = self.model.window - reserve
        if self._bytes(slate) + SPARE <= window:  # a token is at least a byte
            return slate
        bare = lengths(slate.without_context())
        possible = [k for k, length in enumerate(bare) if length <= window]
        if not possible:
            return slate.without_context()

        def longest(cut: Slate) -> int:
            found = lengths(cut)
            return max(found[k] for k in possible)

        return cut_to_fit(slate, longest, window)

    @staticmethod
    def _bytes(slate: Slate) -> int:
        texts: list[str] = [m.content for m in slate.question]
        texts += [f"{p.text}{p.category}{' ' * 32}" for p in slate.shown]
        longest = max(len(text.encode()) for text in slate.candidates)
        return sum(len(text.encode()) for text in texts) + 2 * longest
