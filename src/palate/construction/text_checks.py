"""Checks that read nothing but the texts and dates of a row, or of one user's rows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from palate.benchmarks import Dataset
from palate.construction.leaks import RUN, SEED, Passage, is_earlier, words_of
from palate.construction.rows import hash_of_file
from palate.data import MAX_LINE, PACKED, ByteStream, files_of, read_rows
from palate.errors import DataError
from palate.records import PreferencePair, normal_form
from palate.words import pieces, runs, weight

Faults = Sequence[Sequence[str] | None]
"""What is wrong with each row; None for a row that lacks what the check reads."""
PARROT = 8
"""Words in a row that make an answer a copy of the gold."""
MODELS = r"chatgpt|gpt-?\d\w*|qwen[\d.]*|deepseek|smollm\w*|llama[ -]?\d[\d.]*|mixtral"
NAMESAKES = "claude|gemini|bard|llama|mistral|copilot|grok|gemma|phi|kimi"
"""Models whose names people, stars and animals bear too: they count beside AI or a maker."""
MAKERS = "openai|anthropic|google|meta|microsoft|alibaba|mistral|deepseek|hugging face|cohere|xai"
BY = "(?:made|built|created|developed|trained) by"
MACHINE = (
    r"(?:(?:\w+ )?(?:ai|artificial intelligence) (?:language )?(?:model|assistant|chatbot)"
    r"|(?:large )?language model)"
)
PHRASES = (
    rf"as an? (?:{MACHINE}|ai|artificial intelligence)(?: {BY} \w+)?,? (?:i|my)\b",
    rf"(?:i am|i'm) (?:just |only )?an? (?:{MACHINE}\b|(?:ai|artificial intelligence)[,.;:!])",
    rf"(?:i am|i'm|my name is) (?:{MODELS})(?!\w)",
    rf"(?:i am|i'm|my name is) (?:{NAMESAKES}),? (?:an? |the )?(?:ai|{MACHINE}|{BY})\b",
    rf"(?:i am|i'm|this is) (?:{MODELS}|{NAMESAKES}),? (?:an? |the )(?:[\w-]+ )*?model"
    rf" (?:{BY}|by|from|of) (?:{MAKERS})\b",
    rf"i was {BY} (?:{MAKERS})\b",
    r"my (?:knowledge cut-?off|training data)\b",
)
NAMES_MODEL = re.compile(rf"(?<![\"'“‘«`])\b(?:{'|'.join(PHRASES)})", re.IGNORECASE)
OPENING = (
    r"\W*(?:(?:(?:(?:i am|i'm) )?(?:(?:very|so|really|truly) )?sorry|i apologi[sz]e|my apologies"
    r"|(?:i am|i'm) afraid)\b(?:[^.!?]{0,70}?\b(?:but|that))?\W+|(?:unfortunately|no)\W+)*"
)
REQUEST = r"(?:requests?|questions?|prompts?|tasks?|query|queries|topics?|information)\b"
SAYS = "answer|provid|assist|help|respond|comply|engag|discuss|generat|creat|writ|fulfill?|continu"
FAMILIES = {
    "cannot": r"i(?: can't| cannot| can not|(?: won't| will not)(?: be able to)?"
    r"|(?: am|'m) (?:unable|not able|not allowed|not permitted|not going) to) (?:"
    r"(?:assist|help)(?: you)? (?:with|in) (?:that|this|your|such|any)\b"
    r"|(?:fulfill?|complete|comply with|process|answer|satisfy|respond to|engage (?:in|with))"
    rf" (?:that|this|your|such|any|the) (?:[\w-]+ )?{REQUEST}"
    r"|provide you with\b|(?:provide|offer|generate|create|produce) (?:[\w'-]+ ){0,5}?"
    r"(?:information|instructions?|advice|guidance|answers?|responses?|assistance|opinions?|content"
    r"|support|help|explanations?|justifications?|reasons|lists? of"
    r"|(?:that|this|your) (?:request|prompt|question)))\b",
    "declines": r"i (?:(?:must|have to|need to|will have to) )?(?:\w+ly )?(?:decline|refuse)"
    rf"(?:[.!]| to (?:{SAYS})| (?:that|this|your|the) {REQUEST})",
    "uneasy": r"i(?:'m not| am not| (?:do not|don't|would not|wouldn't) (?:feel|be)) comfortable"
    rf" (?:with )?(?:{SAYS})",
    "unfit": r"(?:it is|it's|it would be) (?:not|in)\W?(?:appropriate|ethical)(?: or \w+)?"
    rf" (?:for me )?to (?:{SAYS})",
}
"""How models refuse, in the first person or as if it were a law."""
REFUSAL = re.compile(f"{OPENING}(?:{'|'.join(FAMILIES.values())})", re.IGNORECASE)
"""Only where the answer begins with it: later it may be a part of advice."""
PLAIN = tuple(f".txt{packed}" for packed in ("", *PACKED))
OVERLAP = 44
"""Words of the lines before that a line is searched with: no script writes 13 words in more."""


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


def format_fault(answer: str) -> str | None:
    """Return what is wrong with an answer's form; else None.

    The phrases are few and in the first person, so that advice about machines passes. Behind a
    quotation mark they are somebody else's words.

    >>> format_fault("I'm sorry, but I can't help with that."), format_fault("As an AI model, I …")
    ('is a refusal', 'names its model')
    >>> format_fault(" ... "), format_fault("I can't help you with oil, so try butter.")
    ('is empty', None)
    """
    plain = " ".join(answer.split()).replace("’", "'")
    if not any(character.isalnum() for character in plain):
        return "is empty"
    if REFUSAL.match(plain):
        return "is a refusal"
    return "names its model" if NAMES_MODEL.search(plain) else None


class SharedRuns:
    """The rows' texts by name, and which of them share 13 words with another text.

    They are held as `Passage` holds one, by pieces of which every run of 13 words has one.
    """

    def __init__(self, pairs: Dataset) -> None:
        self.rows = [
            {"question": pair.text, "narrative": pair.gold.narrative or "", **sides(pair)}
            for pair in pairs.pairs
        ]
        texts = {text: Passage(text) for row in self.rows for text in row.values()}
        self._passages = {t: p for t, p in texts.items() if weight(p.words) >= RUN}
        self._holders: dict[str, list[str]] = defaultdict(list)
        for text, passage in self._passages.items():
            for piece in set(pieces(passage.words, SEED)):
                self._holders[piece].append(text)

    def sharing(self, words: Sequence[str]) -> list[str]:
        """Return the texts that share 13 words in a row with these words."""
        shared = dict.fromkeys(run for run in runs(words, SEED) if run in self._holders)
        texts = dict.fromkeys(text for run in shared for text in self._holders[run])
        return [text for text in texts if self._passages[text].shares_run(words)]


def leak_faults(pairs: Dataset) -> Faults:
    """Name what of a row shares 13 words with a post of its profile, and the first such post."""
    shared = SharedRuns(pairs)
    posts = {post.text for pair in pairs.pairs for post in pair.profile}
    sharing = {text: shared.sharing(words_of(text)) for text in posts}
    faults: list[list[str] | None] = []
    for row, pair in zip(shared.rows, pairs.pairs, strict=True):
        posts_of = {
            name: [post.id for post in pair.profile if text in sharing[post.text]]
            for name, text in row.items()
        }
        leaks = [f"{name}: {RUN} words of post {ids[0]}" for name, ids in posts_of.items() if ids]
        faults.append(leaks if pair.profile else None)
    return faults


def contaminated_faults(pairs: Dataset, against: Sequence[Path]) -> Faults:
    """Name what of a row shares 13 words with a text of these files, and where.

    Of files in a format of rows each text of each row is read; of `.txt` the lines, over their
    ends. Raises `DataError` for a file, or a row of it, that cannot be read.
    """
    shared = SharedRuns(pairs)
    places: dict[str, str] = {}
    for path in against:
        for number, words in (_text_lines if _is_plain(path) else _row_texts)(path):
            for text in shared.sharing(words):
                places.setdefault(text, f"{path.name}:{number}")
    return [
        [f"{name}: {RUN} words of {places[text]}" for name, text in row.items() if text in places]
        for row in shared.rows
    ]


def hashes_of(against: Sequence[Path]) -> dict[str, str]:
    """Return the hash of every file that is read, by its number and name."""
    files = [f for p in against for f in ([p] if _is_plain(p) else files_of(p))]
    return {f"against {n}: {file.name}": hash_of_file(file) for n, file in enumerate(files, 1)}


def _is_plain(path: Path) -> bool:
    return path.name.lower().endswith(PLAIN)


def _row_texts(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, row in read_rows(path):
        if isinstance(row, DataError):
            raise DataError(row.problem, file=str(path), line=number, field=row.field)
        yield from ((number, words_of(text)) for text in _strings(row))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(part)


def _text_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    words: list[str] = []
    with ByteStream(path) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE), b""), 1):
            stream.line = number
            try:
                words = words[-OVERLAP:] + words_of(line.decode())
            except UnicodeDecodeError as error:
                raise stream.error(f"not UTF-8 (byte {error.start + 1})") from error
            yield number, words
