"""verify_run(folder) → what is wrong with a run, and what nobody can see from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from palate.errors import RunError, UsageError
from palate.records import Settings, problem_of
from palate.runs import (
    JOURNAL,
    MANIFEST,
    ROWS,
    Identity,
    Manifest,
    Run,
    Summary,
    Verdicts,
    read_content,
    read_manifest,
)
from palate.runs.run import AGAIN, UNDECIDED
from palate.verification.afresh import Rescoring
from palate.verification.data import DataOfRuns
from palate.verification.figures import figure_problems
from palate.verification.rows import by_data, by_journal, by_numbers, checked_rows


class CheckedRun(NamedTuple):
    """What is wrong with a run, each with its file and line where it has one."""

    folder: Path
    problems: list[str]
    rows: int = 0
    unseen: tuple[str, ...] = ()
    """What was not compared with anything."""


def verify_run(
    folder: Path, data: DataOfRuns, rescoring: Rescoring | None = None
) -> CheckedRun | None:
    """Check name, schema, rows, data, journal and figures of a run; None for another kind.

    Figures are recomputed, and rows scored afresh, where nothing else is wrong.
    """
    problems: list[str] = []
    unseen: list[str] = []
    verdicts = None
    try:
        manifest = read_manifest(folder)
        if manifest.kind != Run.kind:
            return None
        identity = _identity(folder, manifest)
        manifest = manifest.model_copy(update={"identity": identity})
        summary = read_content(folder, Run.kind, Summary)
        pairs = data.of(identity, bad_rows=summary.bad_rows > 0)
        checks = [by_numbers(identity["protocol"])]
        of_data = {}
        if pairs is None:
            unseen.append("the data (-b)")
        else:
            checks.append(by_data(pairs, identity["seed"]))
            of_data = {"undecided_rows": pairs.ties, "bad_rows": len(pairs.bad_rows)}
            if pairs.content_hash != identity["rows"]:
                problems.append(f"{folder / MANIFEST}: `rows` is no hash of the data's rows")
        there = (folder / JOURNAL).is_file()
        check = by_journal(folder / JOURNAL, manifest) if there else None
        if check is None:
            unseen.append("the journal" + ("" if there else " (there is none)"))
        checks += [check] if check else []
        verdicts = Verdicts(checked_rows(folder / ROWS, checks, problems))
        if pairs is not None and len(verdicts) < len(pairs.pairs):
            where = f"{folder / ROWS}:{len(verdicts) + 1}"
            problems.append(f"{where}: no row; the data have {len(pairs.pairs):,}")
        if not problems:
            problems, fields = figure_problems(folder, manifest, verdicts, summary, of_data)
            unseen.append(f"of summary.json {', '.join(fields)}")
            unseen += [name for name in (AGAIN, UNDECIDED) if (folder / name).is_file()]
            Run.read(folder)  # what lies beside the rows can be read
        if rescoring is not None and not problems:
            if pairs is None:
                raise UsageError("without the data (-b) nothing is scored afresh")
            wrong = rescoring.problems(manifest, summary, verdicts, pairs)
            problems = [f"{folder / ROWS}:{number}: {what}" for number, what in wrong]
    except UsageError as error:
        named = isinstance(error, RunError)  # others are of what the manifest says
        problems.append(f"{'' if named else f'{folder / MANIFEST}: '}{error}")
    return CheckedRun(folder, problems, 0 if verdicts is None else len(verdicts), tuple(unseen))


def _identity(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """Return the identity of the run that lies in a folder; raises `RunError` for another's."""
    told = manifest.identity
    try:
        known = Identity.model_validate({k: told[k] for k in Identity.model_fields if k in told})
        Settings(seed=known.seed)
        if not all(isinstance(told.get(name, ""), str) for name in ("since", "until")):
            raise ValueError("since, until: input should be a valid string")
    except ValueError as error:
        raise RunError(f"{folder / MANIFEST}: identity ({problem_of(error)})") from error
    place = manifest.folder(Path())
    if folder.resolve().parts[-3:] != place.parts:
        raise RunError(f"{folder / MANIFEST}: is the manifest of {place.as_posix()}")
    return {**told, **known.model_dump(mode="json")}
