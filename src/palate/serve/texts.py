"""Texts of trainers, taken apart: the response without prompt and end of turn."""

from __future__ import annotations

import re
from collections.abc import Sequence

from palate.marks import end_at

FIRST_TOKEN = re.compile(r"\s*(?:[<\[]\S{0,30}?[>\]])?")
"""What a tokenizer may put first, such as BOS."""
LEAST = 16
"""So many characters of a cut prompt must be left: fewer may be the response's own."""


def response_in(query: str, prompt: str, ends: Sequence[str] = ()) -> str | None:
    """Return the response in a query, prompt and response in one; None where no prompt begins it.

    A tokenizer may put a token before the prompt, such as BOS, and decode white space otherwise
    than the prompt has it. A prompt over the model's window is cut on the left, so that the query
    begins with the prompt's end. Tokens that end the response, by their look or named in `ends`,
    are left out.

    >>> response_in("<s>Tea?<bot>Yes, please.<|im_end|>\\n", "Tea?<bot>")
    'Yes, please.'
    >>> response_in("is the question.<bot>Yes.</s>", "Tea or not, that is the question.<bot>")
    'Yes.'
    >>> response_in("Tea?", "Coffee?") is None
    True
    """
    if (start := _after_prompt(query, prompt)) is None:
        return None
    return without_end(query[start:], ends)


def without_end(text: str, ends: Sequence[str] = ()) -> str:
    """Return a text without the tokens that end its turn; the rest stays as it is.

    >>> without_end("Yes. <|im_end|>\\n<|endoftext|>"), without_end("Yes. ")
    ('Yes. ', 'Yes. ')
    """
    stop = len(text)
    while True:
        bare = stop
        while bare and text[bare - 1].isspace():
            bare -= 1
        named = next((end for end in ends if end and text.endswith(end, 0, bare)), None)
        start = end_at(text, bare) if named is None else bare - len(named)
        if start < 0:
            return text[:stop]
        stop = start


def _after_prompt(query: str, prompt: str) -> int | None:
    if (start := _after(query, prompt)) is not None:
        return start
    # A tokenizer may write a space that the prompt has not, or none: `<s> [INST]`.
    places = [k for k, letter in enumerate(query) if not letter.isspace()]
    start = _after("".join(query.split()), "".join(prompt.split()))
    if not start:
        return start
    start = places[start - 1] + 1
    space = prompt[len(prompt.rstrip()) :]
    return start + len(space) if query.startswith(space, start) else start


def _after(query: str, prompt: str) -> int | None:
    if query.startswith(prompt):
        return len(prompt)
    before, there, _ = query.partition(prompt)
    if there and FIRST_TOKEN.fullmatch(before.rstrip()):
        return len(before) + len(prompt)
    first = FIRST_TOKEN.match(query)
    for start in {0, first.end() if first else 0}:
        if (shared := overlap(prompt, query[start:])) >= LEAST:
            return start + shared
    return None


def overlap(prompt: str, query: str) -> int:
    """Return the length of the longest end of the prompt with which the query begins.

    The failure function of Knuth, Morris and Pratt, so that no text takes more than linear time.
    """
    both = [*query[: len(prompt)], None, *prompt]
    shared = [0] * len(both)
    for k in range(1, len(both)):
        length = shared[k - 1]
        while length and both[k] != both[length]:
            length = shared[length - 1]
        shared[k] = length + (both[k] == both[length])
    return shared[-1]
