"""The rows of `generate`: which prompt each goes on from, and with which earlier row it begins."""

from __future__ import annotations

from typing import NamedTuple

from palate.errors import UsageError

Ids = list[int]


class Row(NamedTuple):
    """Which prompt a row goes on from, and what it holds behind it."""

    prompt: int
    response: Ids


def rows_of(ids: list[Ids], prompts: list[Ids]) -> list[Row]:
    """Tell apart padding, prompt and response of each row; rows of a prompt stand together.

    Raises `UsageError` where the rows are not those of the prompts.
    """
    if not all(ids):
        raise UsageError(
            "the rows of generate hold no prompt, as with inputs_embeds; call generate with "
            "input_ids"
        )
    per_prompt, rest = divmod(len(ids), len(prompts))
    if rest or not per_prompt:
        raise UsageError(
            f"generate has {len(ids)} rows and palate.guidance {len(prompts)} prompts; give both "
            "the same prompts, in the same order"
        )
    width = _end_of_prompt(ids[0], prompts[0], max(map(len, prompts)))
    rows = []
    for k, row in enumerate(ids):
        prompt = prompts[k // per_prompt]
        if width is None or not _ends_at(width, row, prompt):
            raise UsageError(_mismatch(k, ids, prompts))
        rows.append(Row(k // per_prompt, row[width:]))
    return rows


def _mismatch(k: int, ids: list[Ids], prompts: list[Ids]) -> str:
    """Say why row k, the first that is not its prompt's, is not."""
    per_prompt = len(ids) // len(prompts)
    of_rows = [prompt for prompt in prompts for _ in range(per_prompt)]
    if all(row[: len(prompt)] == prompt for row, prompt in zip(ids, of_rows, strict=True)):
        return (
            "the rows of generate are padded on the right; load the tokenizer with "
            'padding_side="left", or set tokenizer.padding_side = "left"'
        )
    if k % per_prompt:
        return (
            f"generate has {len(ids)} rows for {len(prompts)} question{'s' * (len(prompts) > 1)} "
            f"of palate.guidance, and row {k} does not begin with prompt {k // per_prompt}; give "
            "palate.guidance a question for each prompt of generate"
        )
    return (
        f"row {k} of generate does not begin with prompt {k // per_prompt} of palate.guidance, "
        "padded on the left; give prompts= what generate is given"
    )


def _end_of_prompt(row: Ids, prompt: Ids, least: int) -> int | None:
    """Return where a prompt behind left padding ends, from `least` tokens on."""
    for start in range(least - len(prompt), len(row) - len(prompt) + 1):
        if row[start] == prompt[0] and _ends_at(start + len(prompt), row, prompt):
            return start + len(prompt)
        if row[start] != row[0]:
            return None
    return None


def _ends_at(width: int, row: Ids, prompt: Ids) -> bool:
    start = width - len(prompt)
    return start >= 0 and row[start:width] == prompt and len(set(row[:start])) <= 1


def shared_with(earlier: list[Row], rows: list[Row]) -> tuple[int, list[int]]:
    """Return how many tokens all rows share with an earlier row, and with which each of them."""
    if len(earlier) == len(rows) and all(map(_goes_on, earlier, rows)):
        return len(earlier[0].response), list(range(len(rows)))
    order, least = [], len(rows[0].response)
    for row in rows:
        alike = [(_alike(it, row), -k) for k, it in enumerate(earlier)]
        longest, k = max(alike, default=(0, 0))
        order.append(-k)
        least = min(least, longest)
    return least, order


def _goes_on(earlier: Row, row: Row) -> bool:
    return (
        earlier.prompt == row.prompt and row.response[: len(earlier.response)] == earlier.response
    )


def _alike(earlier: Row, row: Row) -> int:
    if earlier.prompt != row.prompt:
        return 0
    n = min(len(earlier.response), len(row.response))
    if earlier.response[:n] == row.response[:n]:
        return n
    return next(k for k in range(n) if earlier.response[k] != row.response[k])
