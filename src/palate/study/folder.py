"""The folder of a study: the plan, its items and their gold, each checked when it is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from palate.errors import ResourceError, RunError, writing
from palate.files import whole_folder, write_json, write_whole
from palate.records import problem_of
from palate.runs import VerdictRow
from palate.study.records import GoldRow, Planned, StudyItem, StudyPlan

PLAN, ITEMS, GOLD, LINKS = "plan.json", "items.jsonl", "gold.jsonl", "links.csv"
SCHEMA, KIND = 1, "study"
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
        rows: dict[str, list[GoldRow]] = {}
        for row in self.gold:
            rows.setdefault(row.item, []).append(row)
        return {item: tuple(listed) for item, listed in rows.items()}

    @cached_property
    def responses_of(self) -> dict[str, tuple[str, str]]:
        """The hashes of each item's answers, as rows of runs name them."""
        return {
            name: (VerdictRow.hash_of(item.answers[0]), VerdictRow.hash_of(item.answers[1]))
            for name, item in self.items.items()
        }

    def write(self) -> None:
        """Write it into a folder that is not there yet, whole or not at all.

        Raises `RunError` where it exists, `ResourceError` for a full disk.
        """
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
        raise RunError(
            f"{folder}: no study ({problem_of(error)}); make one with palate study plan"
        ) from error
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
