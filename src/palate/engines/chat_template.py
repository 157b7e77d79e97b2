"""From messages to token ids: through the model's own template, in one step, with one BOS."""

from __future__ import annotations

import json
import re
import threading
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from time import monotonic_ns
from typing import Any

from jinja2 import TemplateError

from palate.engines.template_source import marks_of, read_source
from palate.errors import ModelError
from palate.marks import BRACKETED, HEADING, UNKNOWN, after_thought, prompt_end
from palate.records import Encoded, Message, Settings

REMEMBERED = 128
"""Texts whose tokens are at hand: those of one slate, that a second scorer reads next."""
HELLO = (Message(role="user", content="Hello?"),)
ANSWER = Message(role="assistant", content="Hi.")
_PROBES = (
    (Message(role="user", content="A or B?\n\nReply with one letter."),),
    (*HELLO, ANSWER, Message(role="user", content="(1)")),
)
NAMED = 40
"""Characters of a message that an error names."""


class ChatTemplate:
    """A tokenizer and its chat template, for texts that are data.

    A text that spells one of the tokenizer's tokens or of the template's marks is broken by a
    zero-width space, so that no post and no response can open or close a turn (`marks_of`); such
    texts are counted in `broken`.

    Args:
        tokenizer: a fast one.
        settings: hold the date that the template is told, and a template for a tokenizer without.
        rows: of the model's embeddings, where they are known: an id beyond them is refused.
    """

    def __init__(
        self, tokenizer: Any, settings: Settings | None = None, rows: int | None = None
    ) -> None:
        self.source = read_source(tokenizer, settings or Settings())
        self._plain, self._answering = self.source.text, self.source.answering
        self.name = str(tokenizer.name_or_path)
        if not tokenizer.is_fast:
            raise ModelError(f"{self.name}: needs a fast tokenizer (tokenizer.json)")
        self.tokenizer, self.rows = tokenizer, rows
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
        self._marks, roles = marks_of(
            tokenizer,
            self.source.written,
            lambda turns, generation: self._render(self._plain, turns, generation),
        )
        self._first = "".join({mark[0] for mark in self._marks})
        written = "|".join(map(re.escape, roles)) or "(?!)"
        self._roles = re.compile(rf"^([ \t]*)({written})", re.M)
        self.broken: dict[int, int] = {}
        """Hashes of the texts that spelt a mark, and when each was last read."""
        self._lock = threading.Lock()
        self._remembered = lru_cache(1)(self._written)
        self._encoded = lru_cache(REMEMBERED)(self._tokenised)

    def text(self, messages: tuple[Message, ...], *, generation: bool) -> str:
        """Return the conversation as the template writes it; each response asks for the same."""
        return self._remembered(messages, self._plain, generation)

    def answer_text(self, messages: tuple[Message, ...]) -> str:
        """Return the prompt behind which a response stands at once.

        It is `text`, but no thought is open at its end: the template is told `enable_thinking =
        false`, and a thought that it opens all the same is closed, empty. Where a closed
        conversation has further marks before its response, they stand there. Raises `ModelError`
        for a thought in marks that are not known.
        """
        end = prompt_end(self._remembered(messages, self._answering, True))
        if end.closed is None:
            raise ModelError(f"{self.name}: the template opens {UNKNOWN.format(end.mark)}")
        return end.closed + self.lead

    @cached_property
    def answering(self) -> str:
        """The template as Jinja whose prompt is `answer_text`, for who renders it elsewhere."""
        prompt = self._written(HELLO, self._answering, True)
        behind = json.dumps(self.answer_text(HELLO).removeprefix(prompt), ensure_ascii=False)
        ending = f"{{% if add_generation_prompt %}}{{{{ {behind} }}}}{{% endif %}}"
        return self._answering + ending * (behind != '""')

    @cached_property
    def lead(self) -> str:
        """The marks that only a closed conversation has between prompt and response, if any."""
        prompt = self._written(HELLO, self._answering, True)
        closed = self._written((*HELLO, ANSWER), self._answering, False)
        bare = prompt_end(prompt).bare
        if not closed.startswith(bare):
            return ""
        lead = closed[len(bare) :].partition(ANSWER.content)[0]
        if bare != prompt and BRACKETED.search(lead):
            lead = after_thought(lead)
        return lead if BRACKETED.search(lead) else ""

    @cached_property
    def header_behind(self) -> str:
        """The header of one more turn that the template writes behind an answer, if any.

        As Llama 3's first, which did not look at `add_generation_prompt`. A classifier reads what
        its template writes; an answer's end, and its probability, are those without the header.
        """
        closed = self.closed_text(HELLO, ANSWER.content)
        before, _, behind = closed.partition(ANSWER.content)
        header, behind = before.rpartition("Hello?")[2].rstrip(), behind.rstrip()
        starts = (k for k in range(len(behind) + 1) if header.endswith(behind[k:]))
        shared = behind[next(starts) :].strip()
        # Where turns of user and assistant end alike, that mark is shared too.
        end = BRACKETED.match(shared) if shared == behind.strip() else None
        texts = shared[end.end() :].strip() if end else "", shared
        return next((it for it in texts if BRACKETED.search(it) or HEADING.search(it)), "")

    @cached_property
    def behind(self) -> str:
        """What the template writes behind an answer, but for a header of one more turn."""
        return self._headless(self.closed_text(HELLO, ANSWER.content)).rpartition(ANSWER.content)[2]

    def ends(self, named: frozenset[int]) -> frozenset[int]:
        """Return the ids that end a reply: those named, the tokenizer's, and the template's own.

        That is the last token in a row behind a response, unless another of them is an end already;
        where nothing is written there, the first token of the user's next turn.
        """
        last, behind = -1, ""
        named |= ids_of(self.tokenizer.eos_token_id)
        with suppress(ModelError):
            behind = self.behind.lstrip()
            if not behind:
                turns, last = self._written((*HELLO, ANSWER, *HELLO), self._plain, False), 0
                behind = turns.partition(ANSWER.content)[2].lstrip()
        written, ids = [], self.tokenizer.get_added_vocab()
        while tokens := [token for token in ids if token.strip() and behind.startswith(token)]:
            written.append(ids[token := max(tokens, key=len)])
            behind = behind[len(token) :]
        return named if not written or named & {*written} else named | {written[last]}

    def _written(self, messages: tuple[Message, ...], source: str, generation: bool) -> str:
        turns = [{"role": m.role, "content": self.safe(m.content)} for m in messages]
        try:
            written = self._render(source, turns, generation)
        except TemplateError as error:
            raise ModelError(
                f"{self.name}: the chat template refuses this conversation ({error})"
            ) from error
        for turn in turns:
            if turn["content"].strip() not in written:
                start = turn["content"].strip()[:NAMED]
                raise ModelError(
                    f"{self.name}: the chat template leaves out or changes a text of the "
                    f"{turn['role']} ({start!r} …)"
                )
        return written

    def _render(self, source: str, turns: Sequence[Mapping[str, str]], generation: bool) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                list(turns), chat_template=source, tokenize=False, add_generation_prompt=generation
            )
        )

    def safe(self, text: str) -> str:
        """Break what spells a mark."""
        whole = text
        if any(letter in text for letter in self._first):
            for mark in self._marks:
                if mark in text:
                    text = text.replace(mark, f"{mark[0]}\u200b{mark[1:]}")
        text = self._roles.sub(lambda role: f"{role[1]}{role[2][0]}\u200b{role[2][1:]}", text)
        if text != whole:
            self.broken[hash(whole)] = monotonic_ns()
        return text

    def closed_text(self, messages: tuple[Message, ...], response: str) -> str:
        """Return the conversation closed by this response, as the template writes it."""
        closed = (*messages, Message(role="assistant", content=response))
        return self._written(closed, self._plain, False)

    def closed_answer(self, messages: tuple[Message, ...], response: str) -> str:
        """Return the prompt of `answer_text`, closed by this response: what `closed` reads."""
        prompt = self.answer_text(messages)
        closed = (*messages, Message(role="assistant", content=response))
        whole = self._headless(self._written(closed, self._answering, False))
        if whole.startswith(prompt):
            return whole
        bare = prompt_end(self._remembered(messages, self._answering, True)).bare
        if bare == prompt or not whole.startswith(bare):
            raise ModelError(
                f"{self.name}: the chat template writes a closed conversation that does not begin "
                "with its prompt"
            )
        # It writes a thought before an answer and none in one.
        return prompt + whole[len(bare) :].removeprefix(self.lead)

    def _headless(self, closed: str) -> str:
        header, bare = self.header_behind, closed.rstrip()
        return bare.removesuffix(header) if header and bare.endswith(header) else closed

    def prompt(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        """Return the ids of a conversation that the model is to continue."""
        return self._ids(self.text(messages, generation=True))

    def answer_prompt(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        """Return the ids of `answer_text`: a response follows, and no thought."""
        return self._ids(self.answer_text(messages))

    def conversation(self, messages: tuple[Message, ...], response: str) -> tuple[int, ...]:
        """Return the ids of a conversation closed by this response, end of turn included."""
        return self._ids(self.closed_text(messages, response))

    def label_id(self, label: str) -> int:
        """Return the id by which a reply begins that is this label, behind whatever prompt.

        It is the token that follows the prompt in prompt + label, with the space before it that the
        template writes there, if any (`[/INST] A`). Raises `ModelError` where that is no one token,
        where it takes a part of the prompt in, or where prompts differ.
        """
        ids = {self._first_id(prompt, label) for prompt in self._probes}
        if len(ids) > 1:
            raise ModelError(
                f"{self.name}: {label!r} is another token behind other prompts; use verdict=text"
            )
        return ids.pop()

    @cached_property
    def _probes(self) -> list[str]:
        prompts = [self.answer_text(HELLO)]
        for messages in _PROBES:
            with suppress(ModelError):  # such as a template that takes no earlier turns
                prompts.append(self.answer_text(messages))
        return prompts

    def _first_id(self, prompt: str, label: str) -> int:
        problem = "is not one token"
        for space in dict.fromkeys((self._space, "")):
            with self._lock:
                tokens = self._tokens(f"{prompt}{space}{label}")
            last = len(tokens) - 1
            start, _ = tokens.token_to_chars(last)
            before = tokens.token_to_chars(last - 1)[1] if last else 0
            if start < len(prompt):
                problem = "makes one token with the end of the prompt"
            elif before <= len(prompt):
                return int(tokens.ids[last])
        raise ModelError(f"{self.name}: {label!r} {problem}; use verdict=text")

    @cached_property
    def _space(self) -> str:
        """Return the white space that a closed conversation has between prompt and response."""
        prompt = self.answer_text(HELLO)
        try:
            closed = self.closed_answer(HELLO, ANSWER.content)
        except ModelError:  # nothing is known of it
            return ""
        space = closed[len(prompt) :].partition(ANSWER.content)[0]
        return space if space.isspace() else ""

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
        """Return the ids of prompt and open response; a token across the seam is the latter's."""
        prompt = self.answer_text(messages)
        return self._encoded(prompt + self.safe(response), len(prompt))

    def closed(self, messages: tuple[Message, ...], response: str) -> Encoded:
        """Return prompt and response ids with the end of turn, as a policy is trained on them."""
        return self._encoded(
            self.closed_answer(messages, response), len(self.answer_text(messages))
        )

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._encoded(text, None).ids)

    def _tokenised(self, text: str, seam: int | None) -> Encoded:
        with self._lock:  # a tokenizer serves one thread at a time
            tokens = self._tokens(text)
        start = 0
        if seam is not None:  # the first token that ends after the seam
            ends = range(len(tokens)), seam
            start = bisect_right(*ends, key=lambda k: tokens.token_to_chars(k)[1])
        return Encoded(self._checked(tokens.ids), start)

    def _tokens(self, text: str) -> Any:
        # Around `tokenizer()`, which makes lists that nobody reads: a seventh of the time.
        return self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)

    def _checked(self, ids: list[int]) -> tuple[int, ...]:
        bos = self.tokenizer.bos_token_id
        if bos is not None and len(ids) > 1 and ids[0] == ids[1] == bos:
            raise ModelError(f"{self.name}: the chat template writes BOS twice")
        if self.rows is not None and ids and max(ids) >= self.rows:
            token = self.tokenizer.convert_ids_to_tokens(max(ids))
            raise ModelError(
                f"{self.name}: a conversation holds token {max(ids)} ({token!r}), and the model's "
                f"embeddings have {self.rows} rows; resize them, or take its own tokenizer"
            )
        return tuple(ids)


def ids_of(ends: Any) -> frozenset[int]:
    """Return the ids of an `eos_token_id`: a number, a list or None."""
    return frozenset(ends if isinstance(ends, list) else [ends]) - {None}
