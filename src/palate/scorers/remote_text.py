"""The text of a model that runs elsewhere: only its tokenizer and template are here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from palate.engines.endpoints.rewards import IN_IDS
from palate.engines.text.remote_reader import RemoteReader
from palate.errors import ModelError
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

    def check_in_two(self, prompt: str, closed: str, ids: Sequence[int]) -> None:
        """Raise `ModelError` where a server that is sent a prompt and a response may read others.

        It tokenises the two as one text, or as a pair, and does not say which. Both ways have to
        give `ids`; a pair may also be longer, which the number of tokens that were read then tells.
        An embedding model reads the prompt once for two responses or more. That is fewer tokens
        where the prompt makes up more of each conversation than half of itself alone.
        """
        if not closed.startswith(prompt):
            raise ModelError(
                f"{self.reference}: the chat template writes a closed conversation that does not "
                f"begin with its prompt, so it is not to be sent in two texts; {IN_IDS}"
            )
        tokenizer = self.reader.tokenizer
        encode = tokenizer.backend_tokenizer.encode
        response = closed[len(prompt) :]
        whole, pair = encode(closed), encode(prompt, response)
        typed = "token_type_ids" in tokenizer.model_input_names and any(pair.type_ids)
        same_pair = pair.ids == [*ids] and not typed
        if whole.ids != [*ids] or not (same_pair or len(pair.ids) > len(ids)):
            raise ModelError(
                f"{self.reference}: a conversation that is sent as two texts, prompt and response, "
                f"becomes other tokens than the model's; {IN_IDS}"
            )
        if 2 * (len(ids) - len(encode(response).ids)) <= len(encode(prompt).ids):
            raise ModelError(
                f"{self.reference}: a prompt of so few tokens does not tell whether the server "
                f"read it with each response; {IN_IDS}"
            )
