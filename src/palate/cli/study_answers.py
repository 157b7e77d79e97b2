"""palate study status, close, forget, export, import: what becomes of a study's answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from palate.cli import options as flags
from palate.cli.console import show, show_text
from palate.errors import UsageError, writing
from palate.files import write_whole
from palate.records import user_key
from palate.reports import Form, Table
from palate.reports.numbers import count, plain
from palate.seeding import canonical_json
from palate.study import Study, read_study
from palate.study.store import exchange, forgetting, read_answers
from palate.study.store.database import Database
from palate.study.store.rows import progress_of

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="The study's folder.")]


def status(study: Folder, *, form: flags.Format = Form.TABLE) -> None:
    """Print how far the raters are, and how they answer; works while the study is served."""
    planned = read_study(study)
    raters, groups = progress_of(planned)
    answered = sum(row["answered"] for row in raters)
    done = sum("finished" in row["state"] for row in raters)
    title = f"{study}: {answered:,} answers; {done} of {planned.plan.raters} raters finished"
    tables = [_table(title, raters), _table("answers to pairs, by category and trait", groups)]
    document = {"schema": 1, "kind": "study-status", "raters": raters, "groups": groups}
    show(tables if groups else tables[:1], form, document)


def close(
    study: Folder,
    rater: Annotated[str | None, typer.Argument(help="Name or arrival id; default all.")] = None,
) -> None:
    """Take no more answers: of one rater, or of all. What was answered stays."""
    with _database(study) as (database, _):
        show_text(f"closed: {forgetting.close_raters(database, rater)}")


def forget(
    study: Folder,
    name: Annotated[str, typer.Argument(help="Rater, arrival id, or user of the data.")],
    *,
    user: Annotated[
        bool | None, typer.Option("--user/--rater", help="What NAME is; default what it can be.")
    ] = None,
) -> None:
    """Delete all that is kept of a rater, or every item that holds what a user wrote.

    It works while the study is served. A user's items go; what raters answered stays.
    """
    with _database(study) as (database, planned):
        with database.transaction() as db:
            rater = forgetting.rater_named(db, name)
        users = {key for item in planned.items.values() for key in item.users}
        if user is None and rater and user_key(name) in users:
            raise UsageError(f"{name}: is a rater and a user; say --rater or --user")
        if rater and not user:
            show_text(f"forgotten: rater {forgetting.forget_rater(database, study, name)}")
        elif user is False or not (n := forgetting.forget_user(database, study, name)):
            raise UsageError(f"{name}: the study knows no such rater, arrival id or user")
        else:
            show_text(f"forgotten: user {name}, {n:,} items and rows; answers stay")


def export(
    study: Folder,
    *,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A new file; default in STUDY/exports.")
    ] = None,
    items: Annotated[bool, typer.Option("--items", help="Raters' lists, for other tools.")] = False,
    rows: Annotated[bool, typer.Option("--rows", help="Rows that palate reads.")] = False,
) -> None:
    """Write the answers, one a line; or each rater's list; or what was collected, as rows."""
    if items and rows:
        raise UsageError("--items --rows: choose one of them")
    name = "items" if items else "rows" if rows else "answers"
    if output is None:
        output = study / forgetting.EXPORTS / f"{name}.jsonl"
    elif output.exists() or output.suffix != ".jsonl":
        raise UsageError(f"-o {output}: expected a file that is not there yet and ends in .jsonl")
    # Nobody is forgotten between what is read and what is written.
    with _database(study) as (database, _), database.transaction():
        lines = [f"{canonical_json(line)}\n" for line in _exported(read_study(study), name)]
        with writing(output):
            write_whole(output, lines)
            output.chmod(0o600)
    show_text(f"{output}: {len(lines):,} lines")


def import_answers(
    study: Folder, file: Annotated[Path, typer.Argument(help="Answers, one a line (.jsonl).")]
) -> None:
    """Take answers that another tool gathered: all of a file, or none."""
    with _database(study) as (database, planned):
        show_text(f"imported: {exchange.take_answers(database, planned, file):,} answers")


@contextmanager
def _database(folder: Path) -> Iterator[tuple[Database, Study]]:
    study = read_study(folder)
    with closing(Database(folder, study.plan.hash)) as database:
        yield database, study


def _exported(study: Study, name: str) -> Iterable[dict[str, Any]]:
    if name == "items":
        return exchange.rater_lists(study)
    answers = read_answers(study)
    if name == "answers":
        return (row.model_dump(mode="json") for row in answers)
    from palate.study.collecting import contract_rows

    rows: Iterable[dict[str, Any]] = contract_rows(study, answers)
    return rows


def _table(title: str, records: list[dict[str, Any]]) -> Table:
    """Return records of words, counts and shares as a table."""
    to_cell = {str: lambda text: text or "–", int: count}
    rows = [[to_cell.get(type(it), plain)(it) for it in record.values()] for record in records]
    return Table(title, list(records[0]) if records else ["rater"], rows, left=2)
