"""The marks that models write around turns and thoughts: one table for all who read a text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

BRACKETED = re.compile(r"<{1,2}[^<>\s]+>{1,2}|\[{1,2}[^\[\]\s]+\]{1,2}|◁[^◁▷\s]+▷")
"""`<|im_start|>`, `</think>`, `<<SYS>>`, `[INST]`, `◁think▷`."""
HEADING = re.compile(r"^#{2,}.*[^\s#]|\b[A-Z]{3,}:$")
"""`### Instruction:` and `USER:`, where they stand right before a text."""
PLAIN_ROLE = re.compile(r"^[^\W\d_][^\W_]*(?: [^\W_]+){0,3} ?:$")
"""`Human:` and `GPT4 Correct User:`, where they are the line right before a text."""
TURN = re.compile(
    r"[|｜]|user|human|assistant|system|bot\b|\bai\b|model|tool|turn|role|message|inst\b|channel"
    r"|im_|\beo[a-z]\b|think|thought|reason",
    re.I,
)
"""What an added token holds that marks a turn; without it `<b>`, `<code>` and `<sub>` are text."""
END = re.compile(
    r"<[|｜][^<>\s]+>|<[^<>\s]+[|｜]>|\[\|[^\[\]\s]+\|\]|\[e~\[|</s>|\[(?:eos|pad|sep)\]"
    r"|<(?:\w+:)?(?:eo[a-z]|pad|sep|end_of_\w+|endoftext|im_end|turn_end"
    r"|(?:unused|reserved_|extra_id_|special_|tokens_unused_)\d+)>",
    re.I,
)
"""A token that ends a turn, or fills up behind one: by its look, for a list would miss most."""
LONGEST_END = 64
DATA_END = "<|end_of_text|>"
"""What data sets leave in texts of models."""
ADDED_PAD = "<|pad|>"
TRANSCRIPT = re.compile(r"(?:\A|\n\n) ?(?:(Human)|Assistant):[ \n]?")
"""A turn of a published transcript; the group is there where a person asks."""
THOUGHT = re.compile(r"think|thought|reasoning|inner_prefix|unused94|<\|channel", re.I)
"""What a template, or a tokenizer, names that knows of thoughts."""
OPEN_THOUGHT = "a thought that does not end"
UNKNOWN = "a thought in marks that palate does not know ({})"
LOOKED_AT = 2_000
"""Characters at a prompt's end in which a thought may stand open, with what it holds so far."""


class Thought(NamedTuple):
    """How families mark a thought; an ending is an opening's where their groups agree."""

    opening: str
    ending: str
    closing: str
    """Written to close an empty thought; "" where the answer's own marks take its place."""


_NAME = r"(?:(?!(?:no|start|begin|end|stop)_)[a-z]+[:_])?(?:think|thinking|thought|reasoning)"
THOUGHTS = (
    # DeepSeek R1, Qwen 3, GLM 4.5 and most; Seed-OSS, EXAONE Deep, LongCat; Magistral; Kimi
    Thought(rf"([<\[◁])({_NAME}[>\]▷])", rf"([<\[◁])/({_NAME}[>\]▷])", r"\n\n\1/\2\n\n"),
    Thought(r"<\|START_THINKING\|>", r"<\|END_THINKING\|>", "<|END_THINKING|>"),  # Command A
    Thought(r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>", "<|end_of_thought|>"),  # Sky-T1
    Thought(r"<\|think:start\|>", r"<\|think:end\|>", "<|think:end|>"),  # Solar Open 2
    Thought(r"<\|inner_prefix\|>", r"<\|inner_suffix\|>", "<|inner_suffix|>"),  # Apertus
    Thought(r"<\|channel>(?:thought)?", r"<channel\|>", "<channel|>"),  # Gemma 4
    Thought(r"<unused94>(?:thought)?", "<unused95>", "<unused95>"),  # MedGemma
    Thought(  # Solar Open
        r"<\|think\|>",
        r"<\|end\|>(?:<\|begin\|>assistant)?<\|content\|>",
        "<|end|><|begin|>assistant<|content|>",
    ),
    Thought(  # gpt-oss
        r"(?:(?<!.)<\|start\|>assistant)?<\|channel\|>(?!final)[a-z]+(?:<\|message\|>)?",
        r"(?:<\|channel\|>)?\bfinal[^<]{0,40}(?:<\|constrain\|>\w+)?<\|message\|>",
        "",
    ),
    # The same, decoded without special tokens, and Granite 3.2
    Thought(r"analysis(?=(?s:.*)assistantfinal)", "assistantfinal", ""),
    Thought("Here(?: i|')s my thought process:", "Here(?: i|')s my response:", ""),
)
"""What looks like a thought and is no row here is refused by name."""
CHANNELS = frozenset(("<|channel|>", "<|message|>", "<|start|>"))
"""Tokens that mark a thought only together."""
_ANSWER = re.compile(
    r"\A\s*<(?:answer|response|\|START_(?:RESPONSE|TEXT)\||\|begin_of_solution\|)>"
    r"|<(?:/answer|/response|\|END_(?:RESPONSE|TEXT)\||\|end_of_solution\|)>\s*\Z",
    re.I,
)
"""What families write around the answer behind a thought."""
_BRACKETS = re.compile(r"[<>\[\]◁▷]")
_NAMED = re.compile(r"(?<![a-z])(?:think|thinking|thoughts?|reasoning)(?![a-z])", re.I)
_CLOSES = re.compile(r"/|end|stop|no_|off", re.I)


class OpenThought(ValueError):
    """A reply within a thought, or with a thought in marks that are no row here."""


class PromptEnd(NamedTuple):
    """A prompt, and the thought that it ends within, if any."""

    bare: str
    """Without the thought."""
    mark: str = ""
    """What opens it; put before the reply, it lets all who read that know of the thought."""
    closed: str | None = ""
    """With the thought closed, so that an answer may follow; None for marks that are no row."""


@lru_cache(maxsize=16)
def prompt_end(prompt: str) -> PromptEnd:
    r"""Return where a prompt leaves whoever replies.

    >>> prompt_end("<|bot|><think>\n")
    PromptEnd(bare='<|bot|>', mark='<think>', closed='<|bot|><think>\n\n</think>\n\n')
    >>> prompt_end("<|bot|>").mark
    ''
    """
    first = max(0, len(prompt) - LOOKED_AT)
    for row in THOUGHTS:
        for match in _matches(row.opening, prompt, first):
            behind = prompt[match.end() :]
            begun = behind[:1] == "\n" and not _BRACKETS.search(behind)
            if not behind.strip() or (begun and not behind.rstrip().endswith(":")):  # no role
                bare, closing = prompt[: match.start()], match.expand(row.closing)
                return PromptEnd(bare, match[0], prompt.rstrip() + closing if closing else bare)
    mark = re.compile(rf"(?:{BRACKETED.pattern})\s*\Z").search(prompt, first)
    if mark is None or _CLOSES.search(mark[0]) or not _NAMED.search(mark[0]):
        return PromptEnd(prompt, closed=prompt)
    return PromptEnd(prompt[: mark.start()], mark[0].strip(), None)


def after_thought(reply: str) -> str:
    """Return what a reply says behind its thoughts; raises `OpenThought`.

    Only a mark at the beginning opens a thought: one in the midst is named, not opened.

    >>> after_thought("<think>A? B!</think>Verdict: B")
    'Verdict: B'
    >>> after_thought("B says <think> aloud. Verdict: B")
    'B says <think> aloud. Verdict: B'
    """
    rest = reply.lstrip()
    while end := _end_of_first(rest) or _scan(rest)[0]:
        rest = rest[end:].lstrip()
    return (rest if rest == reply.lstrip() else _ANSWER.sub("", rest)).strip()


def _end_of_first(text: str) -> int:
    """Return where the thought ends that begins a text; 0 where none does."""
    for row in THOUGHTS:
        if match := re.match(row.opening, text, re.I):
            for end in _matches(row.ending, text, match.end()):
                if _key(end) == _key(match):
                    return end.end()
            raise OpenThought(OPEN_THOUGHT)
    mark = BRACKETED.match(text)
    if mark and _NAMED.search(mark[0]) and not thoughts_among([mark[0]]):
        raise OpenThought(UNKNOWN.format(mark[0]))
    return 0


def thought_within(answer: str) -> bool:
    """Tell whether an answer holds a whole thought: some models think between its sentences.

    >>> thought_within("Let me see. <think>Tea?</think> Tea.")
    True
    """
    return _scan(answer)[1]


def _scan(text: str) -> tuple[int, bool]:
    """Return where the last thought ends that nothing opened, or 0; and whether one is whole.

    Servers eat what a prompt opened; an ending in plain words is then no ending.
    """
    marks = sorted(
        (match.start(), match.end(), (number, *_key(match)), is_end)
        for number, row in enumerate(THOUGHTS)
        if _BRACKETS.search(row.ending) and _BRACKETS.search(text)  # no plain words
        for is_end, pattern in enumerate(row[:2])
        for match in _matches(pattern, text)
    )
    begun: list[tuple[object, ...]] = []
    last, whole = 0, False
    for _, stop, key, is_end in marks:
        if not is_end:
            begun.append(key)
        elif key in begun:
            begun.remove(key)
            whole = True
        else:
            last = stop
    return last, whole


def _matches(pattern: str, text: str, start: int = 0) -> Iterable[re.Match[str]]:
    return re.compile(pattern, re.I).finditer(text, start)


def _key(match: re.Match[str]) -> tuple[str, ...]:
    return tuple(group.lower() for group in match.groups())


def thoughts_among(tokens: Iterable[str]) -> frozenset[str]:
    """Return the tokens that open or end a thought.

    >>> thoughts_among(["[/THINK]", "</b>"])
    frozenset({'[/THINK]'})
    """
    known, patterns = {*tokens}, [pattern for row in THOUGHTS for pattern in row[:2]]
    marks = {token for token in known if any(re.fullmatch(p, token, re.I) for p in patterns)}
    return frozenset(marks | (CHANNELS & known if min(CHANNELS) in known else set()))


def end_at(text: str, stop: int) -> int:
    """Return where the token begins that ends a turn right there; -1 where there is none."""
    start = max(text.rfind(bracket, max(0, stop - LONGEST_END), stop - 1) for bracket in "<[")
    return start if start >= 0 and END.fullmatch(text, start, stop) else -1
