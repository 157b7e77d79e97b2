"""Checks that read nothing but the texts and dates of the rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache

from palate.benchmarks import Dataset
from palate.construction.checks.answer_format import format_fault
from palate.construction.checks.check_result import CheckResult
from palate.construction.checks.shared_runs import SharedRuns
from palate.construction.leaks import Passage, is_earlier, words_of
from palate.records import PreferencePair, normal_form
from palate.words import runs

PARROT = 8
"""Words in a row that an answer and the gold may not share."""


def sides(pair: PreferencePair) -> dict[str, str]:
    """Return the two answers by name."""
    return {"chosen": pair.chosen, "rejected": pair.rejected}


def told(pair: PreferencePair) -> dict[str, str]:
    """Return what must share no long run with a profile or a foreign file, by name."""
    return {"question": pair.text, "narrative": pair.gold.narrative or "", **sides(pair)}


def check_format(pairs: Dataset) -> CheckResult:
    """Fail a row with an answer that is empty, a refusal, or names its model."""
    details = []
    for pair in pairs.pairs:
        faults = ((side, format_fault(text)) for side, text in sides(pair).items())
        details.append(_joined(f"{side} {fault}" for side, fault in faults if fault))
    return CheckResult("format", tuple(details), len(details))


def check_quote(pairs: Dataset) -> CheckResult:
    """Fail a row with an aspect whose evidence is verbatim neither in narrative nor in a post.

    Texts are compared in their normal form. Aspects without evidence are not checked.
    """
    details: list[str | None] = []
    checked = right = rows = 0
    for pair in pairs.pairs:
        sources = [pair.gold.narrative or "", *(post.text for post in pair.profile)]
        quotes = [(k, normal_form(a.evidence)) for k, a in enumerate(pair.gold.aspects, 1)]
        quotes = [(k, quote) for k, quote in quotes if quote]
        wrong: list[int] = []
        if quotes and any(sources):
            plain = [normal_form(source) for source in sources]
            wrong = [k for k, quote in quotes if not any(quote in source for source in plain)]
            rows, checked, right = rows + 1, checked + len(quotes), right + len(quotes) - len(wrong)
        details.append(_joined(f"evidence of aspect {k} is no quotation" for k in wrong))
    if not rows:
        return CheckResult.missing("quote", len(details), "rubrics with evidence, and its source")
    return CheckResult("quote", tuple(details), rows, verbatim=(right, checked))


def check_parrot(pairs: Dataset) -> CheckResult:
    """Fail a row where an answer and the gold share 8 words in a row.

    A reference that is one of the answers is no gold here: it would be held against itself.
    """
    details: list[str | None] = []
    rows = 0
    for pair in pairs.pairs:
        gold = {name: set(runs(words_of(text), PARROT)) for name, text in _gold_texts(pair)}
        shared = (
            f"{side}: {PARROT} words of {name}"
            for side, text in sides(pair).items()
            for answer in [set(runs(words_of(text), PARROT))]
            for name, held in gold.items()
            if not held.isdisjoint(answer)
        )
        details.append(_joined(shared))
        rows += bool(gold)
    if not rows:
        return CheckResult.missing("parrot", len(details), "narratives, rubrics or references")
    return CheckResult("parrot", tuple(details), rows)


def check_leak(pairs: Dataset) -> CheckResult:
    """Fail a row whose question, narrative or answer shares 13 words with the user's profile."""
    rows = [told(pair) for pair in pairs.pairs]
    held = SharedRuns(text for row in rows for text in row.values())
    holders: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for k, pair in enumerate(pairs.pairs):
        for post in pair.profile:
            holders[post.text].append((k, post.id))
    shared: list[dict[str, str]] = [{} for _ in rows]
    for post_text, places in holders.items():
        sharing = set(held.sharing(words_of(post_text)))
        for k, post_id in places if sharing else ():
            for name, text in rows[k].items():
                if text in sharing:
                    shared[k].setdefault(name, post_id)
    n = sum(bool(pair.profile) for pair in pairs.pairs)
    if not n:
        return CheckResult.missing("leak", len(rows), "profiles")
    details = tuple(
        _joined(f"{name}: 13 words of post {got[name]}" for name in row if name in got)
        for row, got in zip(rows, shared, strict=True)
    )
    return CheckResult("leak", details, n)


def check_later(pairs: Dataset) -> CheckResult:
    """Fail a row with a post that was not written before the question; undated ones pass."""
    details: list[str | None] = []
    rows = 0
    for pair in pairs.pairs:
        earlier = [(post, is_earlier(post.date, pair.date)) for post in pair.profile]
        rows += any(is_before is not None for _, is_before in earlier)
        late = (f"post {post.id} of {post.date}" for post, before in earlier if before is False)
        details.append(_joined(late))
    if not rows:
        return CheckResult.missing("later", len(details), "dates of questions and posts")
    return CheckResult("later", tuple(details), rows)


def check_repeated(pairs: Dataset) -> CheckResult:
    """Fail a row that repeats an earlier row of its user: question and both answers are alike.

    The answers may have changed sides. Rows of two users are no duplicates.
    """
    passage = cache(Passage)

    @cache  # many rows share their question and answers
    def alike(text: str, other: str) -> bool:
        return text == other or passage(text).is_alike(passage(other).words)

    def repeats(pair: PreferencePair, other: PreferencePair) -> bool:
        orders = (other.chosen, other.rejected), (other.rejected, other.chosen)
        return alike(pair.text, other.text) and any(
            alike(pair.chosen, first) and alike(pair.rejected, second) for first, second in orders
        )

    details: list[str | None] = []
    earlier: dict[str, list[PreferencePair]] = defaultdict(list)
    for pair in pairs.pairs:
        rows = earlier[pair.user_id]
        details.append(_joined(f"repeats row {row.id}" for row in rows if repeats(pair, row)))
        rows.append(pair)
    if all(pair.user_id == pair.id for pair in pairs.pairs):
        return CheckResult.missing("repeated", len(details), "user ids")
    return CheckResult("repeated", tuple(details), len(details))


def _gold_texts(pair: PreferencePair) -> Iterator[tuple[str, str]]:
    if pair.gold.narrative:
        yield "the narrative", pair.gold.narrative
    for k, aspect in enumerate(pair.gold.aspects, 1):
        pieces: Sequence[str] = (aspect.aspect, aspect.reason, aspect.evidence)
        for what, text in zip(("title", "reason", "evidence"), pieces, strict=True):
            if text:
                yield f"the {what} of aspect {k}", text
    reference = pair.gold.reference
    if reference and normal_form(reference) not in map(normal_form, sides(pair).values()):
        yield "the reference", reference


def _joined(faults: Iterator[str]) -> str | None:
    return "; ".join(faults) or None
