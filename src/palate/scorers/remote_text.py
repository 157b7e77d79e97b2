"""The text of a model that runs elsewhere: only its tokenizer and template are here."""

from __future__ import annotations

from functools import cached_property

from palate.engines.text.remote_reader import RemoteReader
from palate.scorers.causal import LocalText


class RemoteText(LocalText):
    """The tokenizer and template of a model that runs elsewhere."""

    @cached_property
    def reader(self) -> RemoteReader:
        """Tokenizer, and configuration where there is one."""
        return RemoteReader(self.reference, self.settings)

    @cached_property
    def _frame(self) -> tuple[str, str]:
        # What the model's tokenizer puts around every text, such as one BOS, or CLS and SEP.
        tokenizer = self.reader.tokenizer
        framed, bare = tokenizer("a")["input_ids"], tokenizer("a", add_special_tokens=False)
        ids = bare["input_ids"]
        start = next((k for k in range(len(framed)) if framed[k : k + len(ids)] == ids), 0)
        around = framed[:start], framed[start + len(ids) :]
        return str(tokenizer.decode(around[0])), str(tokenizer.decode(around[1]))

    def unframed(self, text: str) -> str:
        """Drop the BOS or SEP that a server which tokenizes text would write a second time."""
        first, last = self._frame
        return text.removeprefix(first).removesuffix(last)
