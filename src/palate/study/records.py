"""The records of a study: what is asked, who is asked what, and what an answer says."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from palate.errors import ResourceError, RunError, UsageError, writing
from palate.files import whole_folder, write_json, write_whole
from palate.records import Message, Part, Record, Slate, normal_form, problem_of
from palate.records.arguments import grouped
from palate.runs import VerdictRow
from palate.seeding import digest

Side = Literal["first", "second"]
"""One of an item's two answers, which stand sorted: their order tells of nothing."""
Choice = Literal["first", "second", "same", "skip"]
DIMENSIONS = ("correctness", "relevance", "helpfulness")
LOWEST, HIGHEST = 1, 5
Score = Annotated[int, Field(strict=True, ge=LOWEST, le=HIGHEST)]
ShortHash = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
PLAN, ITEMS, GOLD, LINKS = "plan.json", "items.jsonl", "gold.jsonl", "links.csv"
SCHEMA, KIND = 1, "study"


class Planned(Record):
    """What a plan names by its hash, so that it can be told when it was changed."""

    @property
    def hash(self) -> str:
        """Return the hash of all its fields."""
        fields = self.model_dump(mode="json")
        if fields.get("rated") is True:
            del fields["rated"]  # older plans were hashed without
        return digest(type(self).__name__, fields)[:32]


class StudyItem(Planned):
    """A slate as people are asked about it."""

    id: ShortHash
    """Hash of question, shown parts and answers: two rows with one slate are one item."""
    pair: ShortHash
    """Hash of question and answers in normal form, whatever is shown."""
    kind: Literal["pair", "check"] = "pair"
    asks: Literal["better", "prefers"]
    """Which answer is better, with ratings of both; or which this person would prefer."""
    question: tuple[Message, ...]
    shown: tuple[Part, ...] = ()
    answers: tuple[str, str]
    category: str = ""
    expected: Side | None = None
    """Of a check: the answer to its question."""
    users: tuple[str, ...] = ()
    """Keys of those whose question or posts it holds; on no page and in no list."""

    @classmethod
    def of(cls, slate: Slate, **more: object) -> StudyItem:
        """Return the item of a slate, whichever candidate stands first.

        >>> from palate.records import Message
        >>> tea = (Message(role="user", content="Tea?"),)
        >>> slates = [Slate(question=tea, candidates=both) for both in (("a", "b"), ("b", "a"))]
        >>> first, second = map(StudyItem.of, slates)
        >>> first.id == second.id, first.answers, first.asks
        (True, ('a', 'b'), 'better')
        """
        answers = sorted(slate.candidates)
        question = [(message.role, normal_form(message.content)) for message in slate.question]
        return cls.model_validate(
            {
                "id": digest("item", slate.prompt_key, answers)[:16],
                "pair": digest("pair", question, sorted(map(normal_form, answers)))[:16],
                "asks": "prefers" if slate.shown else "better",
                "question": slate.question,
                "shown": slate.shown,
                "answers": answers,
                **more,
            }
        )


class ListEntry(Record):
    """One item in a rater's list."""

    item: ShortHash
    swapped: bool
    """Whether the item's second answer stands first on the page."""
    again: bool = False
    """Whether the rater has met it before, and is asked once more."""


class GoldRow(Planned):
    """A row of the benchmark behind an item; in a file that no page reads."""

    item: ShortHash
    context: str
    row: str
    """The row's id."""
    chosen: Side
    user: str
    """Key of the row's user."""


class Trait(Record):
    """A question of the questionnaire, with its fixed options."""

    name: str
    question: str
    options: tuple[str, ...] = Field(min_length=2)


class StudyPlan(Planned):
    """All that is fixed before anybody is asked; `plan.json` holds it with its hash."""

    mode: Literal["judge", "collect"] = "judge"
    benchmark: str
    content_hash: str
    """Of the rows that were planned with."""
    contexts: tuple[str, ...]
    seed: int
    raters: int
    per_pair: int
    """Raters an item is meant for."""
    margin: float
    """In points of a rating."""
    most_failed_checks: int
    """Who fails more is excluded."""
    rated: bool = True
    """Whether both answers are rated where nothing is shown."""
    items: Mapping[str, str]
    """Id of every item, checks too, and the hash of its record."""
    gold: tuple[str, ...]
    """Hashes of the rows behind them, sorted."""
    left_out: tuple[str, ...] = ()
    """Ids that slates would have that show nothing under a context that shows something."""
    checks: tuple[str, ...]
    lists: tuple[tuple[ListEntry, ...], ...]
    """What each rater is asked, in order; of a collection, the test pairs, the same for all."""
    consent: str
    """Markdown."""
    texts: Mapping[str, str]
    """Words of the pages."""
    traits: tuple[Trait, ...] = ()
    test_share: float = 0.0
    again: float = 0.0
    """Of a collection: the share of earlier pairs asked once more."""
    per_rater: int | None = None
    """Of a collection: questions asked of each."""
    model: str | None = None
    """Of a collection: the personal model that chooses what is asked next."""
    model_hash: str | None = None


class AnswerRow(Record):
    """One rater's answer to one item: a line of `palate study export`."""

    rater: str
    plan: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None
    """Hash of the study's plan, since raters of another study bear the same names."""
    item: ShortHash
    pair: ShortHash
    kind: Literal["pair", "check"] = "pair"
    asks: Literal["better", "prefers"]
    again: bool = False
    contexts: tuple[str, ...] = ()
    """Under which rows of the benchmark are shown so; none for checks and collections."""
    rows: tuple[tuple[str, str], ...] = ()
    """(context, row id) of each of them."""
    responses: tuple[ShortHash, ShortHash]
    """Of the first and the second answer, as rows of runs name them."""
    gold: Side | Literal["both"] | None = None
    """What the rows' users chose: `both` for a mirrored couple, whose users chose oppositely."""
    expected: Side | None = None
    left: Side
    """Which stood first on the page."""
    choice: Choice
    ratings: Mapping[str, tuple[Score, Score]] = {}
    """Of the first and the second answer, by dimension; empty with posts and where skipped."""
    seconds: float | None = None
    date: str
    category: str = ""
    traits: Mapping[str, str] = {}
    changed: int = 0
    """How often the rater changed the answer."""
    excluded: bool = False
    """Whether the rater failed more checks than the plan allows."""


class PageTexts(Record):
    """Words by name, the questionnaire, and what raters agree to, in Markdown."""

    texts: Mapping[str, str]
    traits: tuple[Trait, ...] = ()
    consent: str = ""


def read_page_texts(texts: Path | None = None, consent: Path | None = None) -> PageTexts:
    """Return pages' texts; `UsageError` for a file that lacks palate's names or has others."""
    usual = PageTexts.model_validate(tomllib.loads(_read_file(None, "texts.toml"))).texts
    agreed = _read_file(consent, "consent.md")
    if not agreed.strip():
        raise UsageError(f"--consent {consent}: is empty; write what raters agree to")
    try:
        document = tomllib.loads(_read_file(texts, "texts.toml"))
        pages = PageTexts.model_validate({**document, "consent": agreed})
    except ValueError as error:
        raise UsageError(f"--texts {texts}: cannot be read ({problem_of(error)})") from error
    wrong = [
        *(f"`texts.{key}` is unknown" for key in pages.texts.keys() - usual.keys()),
        *(f"`texts.{key}` is missing" for key in usual.keys() - pages.texts.keys()),
        *(
            f"`texts.{key}`: expected a or b"
            for key, text in pages.texts.items()
            if key.endswith("_expected") and text not in ("a", "b")
        ),
        *("two traits have one name" for _ in pages.traits[len({t.name for t in pages.traits}) :]),
    ]
    if wrong:
        raise UsageError(f"--texts {texts}: {min(wrong)}")
    return pages


def _read_file(path: Path | None, name: str) -> str:
    try:
        return (path or files("palate.study") / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        flag = name.partition(".")[0]
        raise UsageError(f"--{flag} {path}: cannot be read ({problem_of(error)})") from error


P = TypeVar("P", bound=Planned)


@dataclass(frozen=True)
class Study:
    """A study as planned; items whose user was forgotten are missing."""

    folder: Path
    plan: StudyPlan
    items: Mapping[str, StudyItem]
    gold: tuple[GoldRow, ...]

    @cached_property
    def gold_of(self) -> dict[str, tuple[GoldRow, ...]]:
        """The benchmark's rows behind each item."""
        rows = grouped(self.gold, lambda row: row.item)
        return {item: tuple(listed) for item, listed in rows.items()}

    @cached_property
    def responses_of(self) -> dict[str, tuple[str, str]]:
        """The hashes of each item's answers, as rows of runs name them."""
        of = VerdictRow.hash_of
        return {name: (of(it.answers[0]), of(it.answers[1])) for name, it in self.items.items()}

    def write(self) -> None:
        """Write a new folder or none; `RunError` where it exists, `ResourceError` if full."""
        need_new(self.folder)
        with writing(self.folder, ResourceError), whole_folder(self.folder) as folder:
            folder.chmod(0o700)
            replace(self, folder=folder).write_items()
            head = {"schema": SCHEMA, "kind": KIND, "hash": self.plan.hash}
            write_json(folder / PLAN, {**head, **self.plan.model_dump(mode="json")})

    def write_items(self) -> None:
        """Write items and gold anew, each file whole; items last, by which forgetting is told."""
        _write_lines(self.folder / GOLD, self.gold)
        _write_lines(self.folder / ITEMS, self.items.values())


def need_new(folder: Path) -> None:
    """Raise `RunError` where a study's folder exists."""
    if folder.exists():
        raise RunError(f"{folder}: exists; a plan is made once, so name another folder")


def read_study(folder: Path | str) -> Study:
    """Read a study; raises `RunError` for none, and for one that was changed since it was planned.

    An item that is missing was forgotten; one that is there must be what was planned.
    """
    folder = Path(folder)
    try:
        document = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        if (document.pop("schema"), document.pop("kind")) != (SCHEMA, KIND):
            raise ValueError("not a study of this version")
        written = document.pop("hash")
        plan = StudyPlan.model_validate(document)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        why = f"no study ({problem_of(error)})"
        raise RunError(f"{folder}: {why}; make one with palate study plan") from error
    if written != plan.hash:
        raise RunError(f"{folder / PLAN}: changed since it was planned; plan a new study")
    items = _read_lines(folder / ITEMS, StudyItem, plan.items.values())
    gold = _read_lines(folder / GOLD, GoldRow, plan.gold)
    return Study(folder, plan, {item.id: item for item in items}, tuple(gold))


def _write_lines(path: Path, records: Iterable[Planned]) -> None:
    write_whole(path, (f"{record.model_dump_json()}\n" for record in records))
    path.chmod(0o600)


def _read_lines(path: Path, record: type[P], planned: Iterable[str]) -> list[P]:
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            records = [record.model_validate_json(line) for line in file]
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read ({problem_of(error)})") from error
    if not {record.hash for record in records} <= set(planned):
        raise RunError(f"{path}: changed since it was planned; plan a new study")
    return records
