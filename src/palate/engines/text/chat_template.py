"""From messages to token ids: through the model's own template, in one step, with one BOS."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError

from palate.errors import ModelError
from palate.records import Encoded, Message

REMEMBERED = 128
"""Texts whose tokens are at hand: those of one slate, that a second scorer reads next."""


class ChatTemplate:
    """A tokenizer and its chat template, for texts that are data.

    A text that spells one of the tokenizer's special tokens is broken by a zero-width space, so
    that no post and no response can open or close a turn.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.chat_template:
            raise ModelError(f"{tokenizer.name_or_path}: the tokenizer has no chat template")
        if not tokenizer.is_fast:
            raise ModelError(f"{tokenizer.name_or_path}: needs a fast tokenizer (tokenizer.json)")
        self.tokenizer = tokenizer
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
        added = tokenizer.added_tokens_decoder.values()
        special = {*tokenizer.all_special_tokens, *(str(t) for t in added if t.special)}
        self._specials = sorted(t for t in special if len(t) > 1)
        self._last: tuple[tuple[Message, ...], bool, str] | None = None
        self._recent: dict[tuple[str, int | None], Encoded] = {}
        self._lock = threading.Lock()

    def text(self, messages: tuple[Message, ...], *, generation: bool) -> str:
        """Return the conversation as the template writes it; each response asks for the same."""
        last = self._last  # another thread may replace it
        if last is None or last[0] is not messages or last[1] != generation:
            last = self._last = messages, generation, self._written(messages, generation)
        return last[2]

    def _written(self, messages: tuple[Message, ...], generation: bool) -> str:
        turns = [{"role": m.role, "content": self.safe(m.content)} for m in messages]
        try:
            written = self.tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=generation
            )
        except TemplateError as error:
            raise ModelError(
                f"{self.tokenizer.name_or_path}: the chat template refuses this conversation "
                f"({error})"
            ) from error
        return str(written)

    def safe(self, text: str) -> str:
        """Break what spells a special token."""
        for special in self._specials:
            if special in text:
                text = text.replace(special, f"{special[0]}\u200b{special[1:]}")
        return text

    def closed_text(self, messages: tuple[Message, ...], response: str) -> str:
        """Return the conversation closed by this response, as the template writes it."""
        closed = (*messages, Message(role="assistant", content=response))
        return self._written(closed, False)

    def prompt(self, messages: tuple[Message, ...], opening: str = "") -> tuple[int, ...]:
        """Return the ids of a conversation that the model is to continue after `opening`."""
        return self._ids(self.text(messages, generation=True) + opening)

    def conversation(self, messages: tuple[Message, ...], response: str) -> tuple[int, ...]:
        """Return the ids of a conversation closed by this response, end of turn included."""
        return self._ids(self.closed_text(messages, response))

    def rendered(self, text: str, like: Sequence[int]) -> tuple[int, ...]:
        """Return the ids of a conversation that is rendered already, special tokens and all.

        What the tokenizer puts around every text, such as BOS, stands there where it does in
        `like`, the ids of another conversation: whoever rendered the text may have left it out.
        """
        with self._lock:
            bare, framed = self._tokens("a").ids, self.tokenizer("a")["input_ids"]
            ids = tuple(self._tokens(text).ids)
        start = next(k for k in range(len(framed)) if framed[k : k + len(bare)] == bare)
        before, after = tuple(framed[:start]), tuple(framed[start + len(bare) :])
        like = tuple(like)
        if before and like[: len(before)] == before != ids[: len(before)]:
            ids = before + ids
        if after and like[-len(after) :] == after != ids[-len(after) :]:
            ids += after
        return ids

    def continuation(self, messages: tuple[Message, ...], response: str) -> Encoded:
        """Return prompt and response ids; a token across the seam belongs to the response.

        The end of turn is left out.
        """
        prompt = self.text(messages, generation=True)
        return self._split(prompt, prompt + self.safe(response))

    def closed(self, messages: tuple[Message, ...], response: str) -> Encoded:
        """Return prompt and response ids with the end of turn, as a policy is trained on them."""
        prompt = self.text(messages, generation=True)
        whole = self.closed_text(messages, response)
        if not whole.startswith(prompt):
            raise ModelError(
                f"{self.tokenizer.name_or_path}: the chat template writes a closed conversation "
                "that does not begin with its prompt"
            )
        return self._split(prompt, whole)

    def _split(self, prompt: str, whole: str) -> Encoded:
        return self._encoded(whole, len(prompt))

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._encoded(text, None).ids)

    def _encoded(self, text: str, seam: int | None) -> Encoded:
        with self._lock:  # a tokenizer serves one thread at a time
            made = self._recent.get((text, seam))
            if made is None:
                made = self._recent[text, seam] = self._tokenised(text, seam)
                if len(self._recent) > REMEMBERED:
                    del self._recent[next(iter(self._recent))]
            return made

    def _tokenised(self, text: str, seam: int | None) -> Encoded:
        tokens = self._tokens(text)
        start = 0
        if seam is not None:  # the first token that ends after the seam
            ends = range(len(tokens)), seam
            start = bisect_right(*ends, key=lambda k: tokens.token_to_chars(k)[1])
        return Encoded(self._one_bos(tokens.ids), start)

    def _tokens(self, text: str) -> Any:
        # Around `tokenizer()`, which makes lists that nobody reads: a seventh of the time.
        return self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)

    def _one_bos(self, ids: list[int]) -> tuple[int, ...]:
        bos = self.tokenizer.bos_token_id
        if bos is not None and len(ids) > 1 and ids[0] == ids[1] == bos:
            raise ModelError(f"{self.tokenizer.name_or_path}: the chat template writes BOS twice")
        return tuple(ids)
