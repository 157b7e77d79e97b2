"""Checks that read nothing but the texts and dates of a row, or of one user's rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache

from palate.benchmarks import Dataset
from palate.construction.checks.answer_format import format_fault
from palate.construction.leaks import Passage, is_earlier, words_of
from palate.records import PreferencePair, normal_form
from palate.words import runs

Faults = Sequence[Sequence[str] | None]
"""What is wrong with each row; None for a row that lacks what the check reads."""
PARROT = 8
"""Words in a row that make an answer a copy of the gold."""


def sides(pair: PreferencePair) -> dict[str, str]:
    """Return the two answers by name."""
    return {"chosen": pair.chosen, "rejected": pair.rejected}


def format_faults(pairs: Dataset) -> Faults:
    """Name the answers that are empty, refuse, or name their model."""
    faults = [{side: format_fault(text) for side, text in sides(p).items()} for p in pairs.pairs]
    return [[f"{side} {fault}" for side, fault in row.items() if fault] for row in faults]


def quote_faults(pairs: Dataset) -> tuple[Faults, tuple[int, int]]:
    """Name the aspects whose evidence is verbatim neither in narrative nor in a post, line by line.

    Texts are compared in their normal form; an aspect without evidence is passed over. Also returns
    how many evidences are verbatim, and how many were compared.
    """
    faults: list[list[str] | None] = []
    n = 0
    for pair in pairs.pairs:
        sources = [
            normal_form(text)
            for text in (pair.gold.narrative, *(p.text for p in pair.profile))
            if text
        ]
        lines = {k: a.evidence.splitlines() for k, a in enumerate(pair.gold.aspects, 1)}
        quotes = {k: [*map(normal_form, evidence)] for k, evidence in lines.items()}
        quotes = {k: quote for k, quote in quotes.items() if any(quote) and sources}
        wrong = [
            k
            for k, quote in quotes.items()
            if not all(any(line in text for text in sources) for line in quote)
        ]
        faults.append([f"aspect {k} quotes nothing" for k in wrong] if quotes else None)
        n += len(quotes)
    return faults, (n - sum(len(row or ()) for row in faults), n)


def parrot_faults(pairs: Dataset) -> Faults:
    """Name the answers that share 8 words in a row with the gold, and with what of it.

    A reference that is one of the answers is no gold here: it would be held against itself.
    """
    faults: list[list[str] | None] = []
    for pair in pairs.pairs:
        gold = {name: runs(words_of(text), PARROT) for name, text in _gold(pair).items()}
        answers = {side: frozenset(runs(words_of(t), PARROT)) for side, t in sides(pair).items()}
        copied = [
            f"{side}: {PARROT} words of {name}"
            for side, answer_runs in answers.items()
            for name, text in gold.items()
            if not answer_runs.isdisjoint(text)
        ]
        faults.append(copied if gold else None)
    return faults


def later_faults(pairs: Dataset) -> Faults:
    """Name the posts that were not written before the question; undated ones pass."""
    faults: list[list[str] | None] = []
    for pair in pairs.pairs:
        posts = [(post, is_earlier(post.date, pair.date)) for post in pair.profile]
        late = [f"post {post.id} of {post.date}" for post, earlier in posts if earlier is False]
        faults.append(late if any(earlier is not None for _, earlier in posts) else None)
    return faults


def repeated_faults(pairs: Dataset) -> Faults:
    """Name the user's earlier row that a row repeats: question and both answers are alike.

    The answers may have changed sides. Rows of two users are no duplicates.
    """
    passage = cache(Passage)

    @cache  # many rows share their question and answers
    def alike(text: str, other: str) -> bool:
        return text == other or passage(text).is_alike(passage(other).words)

    def answered_alike(pair: PreferencePair, other: PreferencePair) -> bool:
        orders = (other.chosen, other.rejected), (other.rejected, other.chosen)
        return any(alike(pair.chosen, a) and alike(pair.rejected, b) for a, b in orders)

    faults: list[list[str]] = []
    earlier: dict[str, dict[str, list[PreferencePair]]] = defaultdict(lambda: defaultdict(list))
    for pair in pairs.pairs:
        by_text = earlier[pair.user_id]
        rows = (row for text, rows in by_text.items() if alike(pair.text, text) for row in rows)
        same = next((row for row in rows if answered_alike(pair, row)), None)
        faults.append([f"repeats row {same.id}"] if same else [])
        by_text[pair.text].append(pair)
    has_users = any(pair.user_id != pair.id for pair in pairs.pairs)
    return faults if has_users else [None] * len(faults)


def _gold(pair: PreferencePair) -> dict[str, str]:
    texts = {"the narrative": pair.gold.narrative or "", "the reference": pair.gold.reference or ""}
    if normal_form(texts["the reference"]) in map(normal_form, sides(pair).values()):
        del texts["the reference"]
    for k, aspect in enumerate(pair.gold.aspects, 1):
        for field, text in aspect.model_dump().items():
            texts[f"the {field} of aspect {k}".replace("the aspect of ", "")] = text
    return {name: text for name, text in texts.items() if text}
