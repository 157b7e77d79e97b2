"""palate study and agreement: people judge what a model is shown, and how far they agree."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from palate.cli import options as flags
from palate.cli.console import err, show, show_result, show_text
from palate.cli.declare import argument, option
from palate.cli.options import Devices, LoadingAnyLayout
from palate.errors import UsageError, writing
from palate.files import write_whole
from palate.records import user_key
from palate.reports import Form, Table
from palate.reports.numbers import count, many, plain
from palate.reports.study import plan_tables
from palate.seeding import canonical_json
from palate.study import CollectOptions, Study, plan_collection, read_study
from palate.study.agreement import agreement as measure
from palate.study.answers import progress_of, rater_lists, read_answers, take_answers
from palate.study.collecting import contract_rows
from palate.study.database import Database
from palate.study.pages import serve_study
from palate.study.planning import StudyOptions, plan_study
from palate.study.records import LINKS, need_new, read_page_texts
from palate.study.store import EXPORTS, close_raters, forget_rater, forget_user, rater_named

STATUS = (
    "seconds: median of an answer; left: share of choices for the left answer, of sides choices.",
    "failed: checks answered otherwise than expected, of checks.",
)
FOLDER = argument(..., "The study's folder.", metavar="STUDY")

JUDGED = {"per_pair", "context", "checks", "margin", "most_failed_checks", "no_ratings"}
COLLECTED = {"test_share", "again", "per_rater", "model"}


_unset = partial(option, None)
"""An option whose default is that of the study's mode."""


@dataclass(frozen=True)
class PlanOptions:
    """What is fixed before anybody is asked; None where it is as usual, or of the other mode."""

    raters: int = option(..., "Places for raters.", min=1)
    per_pair: int | None = _unset("Raters that each item gets.", show_default="3")
    context: list[str] | None = flags.USUAL_CONTEXTS
    checks: int | None = _unset("Checks that each rater gets.", show_default="4")
    margin: float | None = _unset("Points that count as alike.", show_default="0.25")
    most_failed_checks: int | None = _unset("Who fails more is excluded.", show_default="1")
    no_ratings: bool | None = _unset("Ask no ratings.", "--no-ratings")
    test_share: float | None = _unset("Share of questions for testing.", show_default="0.3")
    again: float | None = _unset("Share of pairs asked once more.", show_default="0.1")
    per_rater: int | None = _unset("Pairs that each rater is asked.", show_default="30")
    model: str | None = _unset("Folder of a pref that chooses pairs.", show_default="none")


def plan(
    benchmark: str = flags.benchmark(..., "Benchmark or file."),
    output: Path = option(..., "Folder of the study, a new one.", "-o", "--output"),
    *,
    options: PlanOptions,
    collect: bool = option(False, "Users choose between `responses`."),
    consent: Path | None = option(None, "What raters agree to, in Markdown."),
    texts: Path | None = option(None, "Words of the pages, in TOML."),
    loading: LoadingAnyLayout,
    devices: Devices,
    form: Form = flags.FORMAT,
) -> None:
    """Fix who is asked what, under a hash, before anybody is asked."""
    given = {name: value for name, value in vars(options).items() if value is not None}
    for name in sorted(given.keys() & (JUDGED if collect else COLLECTED)):
        mode = "without" if collect else "with"
        raise UsageError(f"--{name.replace('_', '-')}: an option of a study {mode} --collect")
    need_new(output)
    settings, pages = devices.settings(), read_page_texts(texts, consent)
    (dataset,) = loading.load_all([benchmark], devices.seed)
    if collect:
        given |= {**dict(pages), "seed": devices.seed}
        study = plan_collection(dataset, CollectOptions.model_validate(given), output)
    else:
        contexts, rated = tuple(given.pop("context", ())), not given.pop("no_ratings", False)
        judged = StudyOptions(**given, contexts=contexts, rated=rated, pages=pages)
        study = plan_study(dataset, judged, output, settings=settings)
    study.write()
    tables = plan_tables(study, dataset)
    document = {table.title: table.columns_of_values() for table in tables}
    show(tables, form, {"hash": study.plan.hash, **document})


def status(study: Path = FOLDER, *, form: Form = flags.FORMAT) -> None:
    """Print how far the raters are, and how they answer; works while the study is served."""
    planned = read_study(study)
    raters, groups = progress_of(planned)
    answered = sum(row["answered"] for row in raters)
    done = sum("finished" in row["state"] for row in raters)
    of_raters = many(planned.plan.raters, "rater")
    title = f"{study}: {many(answered, 'answer')}; {done} of {of_raters} finished"
    tables = [
        _table(title, raters, *STATUS),
        _table("answers to pairs, by category and trait", groups),
    ]
    document = {"schema": 1, "kind": "study-status", "raters": raters, "groups": groups}
    show(tables if groups else tables[:1], form, document)


def close(
    study: Path = FOLDER, rater: str | None = argument(None, "Name or arrival id; default all.")
) -> None:
    """Take no more answers: of one rater, or of all. What was answered stays."""
    with _database(study) as (database, _):
        show_text(f"closed: {close_raters(database, rater)}")


def forget(
    study: Path = FOLDER,
    name: str = argument(..., "Rater, arrival id, or user of the data."),
    *,
    user: bool | None = option(None, "What NAME is; default what it can be.", "--user/--rater"),
) -> None:
    """Delete all that is kept of a rater, or every item that holds what a user wrote.

    It works while the study is served. A user's items go; what raters answered stays.
    """
    with _database(study) as (database, planned):
        with database.transaction() as db:
            rater = rater_named(db, name)
        users = {key for item in planned.items.values() for key in item.users}
        if user is None and rater and user_key(name) in users:
            raise UsageError(f"{name}: is a rater and a user; say --rater or --user")
        if rater and not user:
            show_text(f"forgotten: rater {forget_rater(database, study, name)}")
        elif user is False or not (n := forget_user(database, study, name)):
            raise UsageError(f"{name}: the study knows no such rater, arrival id or user")
        else:
            show_text(f"forgotten: user {name}, {n:,} items and rows; answers stay")


def export(
    study: Path = FOLDER,
    *,
    output: Path | None = option(None, "A new file; default in STUDY/exports.", "-o", "--output"),
    items: bool = option(False, "Raters' lists, for other tools."),
    rows: bool = option(False, "Rows that palate reads."),
) -> None:
    """Write the answers, one a line; or each rater's list; or what was collected, as rows."""
    if items and rows:
        raise UsageError("--items --rows: choose one of them")
    name = "items" if items else "rows" if rows else "answers"
    if output is None:
        output = study / EXPORTS / f"{name}.jsonl"
    elif output.exists() or output.suffix != ".jsonl":
        raise UsageError(f"-o {output}: expected a file that is not there yet and ends in .jsonl")
    # Nobody is forgotten between what is read and what is written.
    with _database(study) as (database, _), database.transaction():
        lines = [f"{canonical_json(line)}\n" for line in _exported(read_study(study), name)]
        with writing(output):
            write_whole(output, lines)
            output.chmod(0o600)
    show_text(f"{output}: {many(len(lines), 'line')}")


def import_answers(
    study: Path = FOLDER, file: Path = argument(..., "Answers, one a line (.jsonl).")
) -> None:
    """Take answers that another tool gathered: all of a file, or none."""
    with _database(study) as (database, planned):
        show_text(f"imported: {many(take_answers(database, planned, file), 'answer')}")


@dataclass(frozen=True)
class PageOptions:
    """Where the pages are, and who comes to them."""

    host: str = option("127.0.0.1", "Address to listen at.")
    port: int = option(8000, "Port; 0 takes a free one.", min=0, max=65535)
    url: str | None = option(None, "Address that raters see, as https://study.example.org.")
    arrive: str | None = option(
        None, "Parameter that names who arrives: PROLIFIC_PID.", metavar="PARAM"
    )
    onward: str | None = option(None, "What the last page links.", "--return", metavar="URL")
    hold_minutes: float = option(60, "Minutes until an abandoned place goes to the next.", "--hold")


def serve(
    study: Path = argument(..., "Folder that palate study plan made."), *, pages: PageOptions
) -> None:
    """Serve the study's pages to its raters: plain forms, without script or cookie.

    The first start writes every rater's link into STUDY/links.csv. With --arrive, whoever comes
    with that parameter takes a place instead. Ctrl-C or SIGTERM ends it, and nothing is lost.
    """

    def listening(address: str, links: Path | None) -> None:
        where = f"links in {links}" if links else f"raters come to {address}/?{pages.arrive}=…"
        err.print(f"palate: {study} at {address} (process {os.getpid()}); {where}")
        if links is None and (study / LINKS).exists():
            warning = f"palate: a place of {LINKS} is free once palate study close {study} RATER"
            err.print(warning, style="bold yellow")
        if pages.host not in flags.LOCAL:
            warning = "palate: not encrypted; put a proxy with TLS before it, and name it by --url"
            err.print(warning, style="bold yellow")

    serve_study(study, **vars(pages), listening=listening)


def agreement(
    source: Path = argument(..., "Study, or a file of answers.", metavar="STUDY|ANSWERS.jsonl"),
    runs: list[Path] = argument([], "Runs to stand beside people, or their folders."),
    margin: float | None = option(None, "In points; a study has its plan's.", show_default="0.25"),
    days: float = option(14, "Between an answer and a later one that may have drifted."),
    output: Path = flags.ROOT,
    form: Form = flags.FORMAT,
) -> None:
    """How far raters agree with each other, with the gold and with scorers."""
    result = measure(source, runs, margin=margin, days=days, root=output)
    show_result(result, form)


@contextmanager
def _database(folder: Path) -> Iterator[tuple[Database, Study]]:
    study = read_study(folder)
    with closing(Database(folder, study.plan.hash)) as database:
        yield database, study


def _exported(study: Study, name: str) -> Iterable[dict[str, Any]]:
    if name == "items":
        return rater_lists(study)
    answers = read_answers(study)
    if name == "answers":
        return (row.model_dump(mode="json") for row in answers)
    rows: Iterable[dict[str, Any]] = contract_rows(study, answers)
    return rows


def _table(title: str, records: list[dict[str, Any]], *notes: str) -> Table:
    """Return records of words, counts and shares as a table."""
    to_cell = {str: lambda text: text or "–", int: count}
    rows = [[to_cell.get(type(it), plain)(it) for it in record.values()] for record in records]
    return Table(title, list(records[0]) if records else ["rater"], rows, notes, left=2)
