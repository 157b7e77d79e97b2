"""Runs of 13 words that question, narrative or answers share with other texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from palate.benchmarks import Dataset
from palate.construction.checks.texts import Faults, sides
from palate.construction.leaks import RUN, SEED, Passage, words_of
from palate.construction.own_text.pipeline import hash_of_file
from palate.data import MAX_LINE, files_of, read_rows
from palate.data.streams import PACKED, ByteStream
from palate.errors import DataError
from palate.words import pieces, runs, weight

PLAIN = tuple(f".txt{packed}" for packed in ("", *PACKED))
OVERLAP = 44
"""Words of the lines before that a line is searched with: no script writes 13 words in more."""


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
        there = dict.fromkeys(run for run in runs(words, SEED) if run in self._holders)
        texts = dict.fromkeys(text for run in there for text in self._holders[run])
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
        for number, words in (_lines if _is_plain(path) else _row_texts)(path):
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


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    words: list[str] = []
    with ByteStream(path) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE), b""), 1):
            stream.line = number
            try:
                words = words[-OVERLAP:] + words_of(line.decode())
            except UnicodeDecodeError as error:
                raise stream.error(f"not UTF-8 (byte {error.start + 1})") from error
            yield number, words
