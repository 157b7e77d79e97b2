"""palate study plan: who is asked what, fixed before anybody is asked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from palate.cli import options as flags
from palate.cli.compute_options import Devices
from palate.cli.console import show
from palate.cli.data_options import LoadingAnyLayout
from palate.cli.flatten import flatten_options
from palate.errors import UsageError
from palate.reports import Form
from palate.reports.kinds.study_plan import tables as plan_tables
from palate.study.folder import need_new
from palate.study.planning import StudyOptions, plan_study, read_page_texts

JUDGED = {"per_pair", "context", "checks", "margin", "most_failed_checks"}
COLLECTED = {"test_share", "again", "per_rater", "model"}


def _usually(value: str, what: str) -> Any:
    return typer.Option(help=what, show_default=value)


@dataclass(frozen=True)
class PlanOptions:
    """What is fixed before anybody is asked; None where it is as usual, or of the other mode."""

    raters: Annotated[int, typer.Option(help="Places for raters.", min=1)]
    per_pair: Annotated[int | None, _usually("3", "Raters that each item gets.")] = None
    context: flags.UsualContexts = None
    checks: Annotated[int | None, _usually("4", "Checks that each rater gets.")] = None
    margin: Annotated[float | None, _usually("0.25", "Points that count as alike.")] = None
    most_failed_checks: Annotated[int | None, _usually("1", "Who fails more is excluded.")] = None
    test_share: Annotated[float | None, _usually("0.3", "Share of questions for testing.")] = None
    again: Annotated[float | None, _usually("0.1", "Share of pairs asked once more.")] = None
    per_rater: Annotated[int | None, _usually("30", "Pairs that each rater is asked.")] = None
    model: Annotated[str | None, _usually("none", "Folder of a pref that chooses pairs.")] = None


@flatten_options
def plan(
    benchmark: Annotated[str, flags.benchmark_option(help="Benchmark or file.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the study, a new one.")],
    *,
    options: PlanOptions,
    collect: Annotated[
        bool, typer.Option("--collect", help="Users choose between `responses`.")
    ] = False,
    consent: Annotated[Path | None, typer.Option(help="What raters agree to, in Markdown.")] = None,
    texts: Annotated[Path | None, typer.Option(help="Words of the pages, in TOML.")] = None,
    loading: LoadingAnyLayout,
    devices: Devices,
    form: flags.Format = Form.TABLE,
) -> None:
    """Fix who is asked what, under a hash, before anybody is asked."""
    given = {name: value for name, value in asdict(options).items() if value is not None}
    for name in sorted(given.keys() & (JUDGED if collect else COLLECTED)):
        mode = "without" if collect else "with"
        raise UsageError(f"--{name.replace('_', '-')}: an option of a study {mode} --collect")
    need_new(output)
    settings, pages = devices.settings(), read_page_texts(texts, consent)
    (dataset,) = loading.load_all([benchmark], devices.seed)
    if collect:
        from palate.study.collecting import CollectOptions, plan_collection

        given |= {**dict(pages), "seed": devices.seed}
        study = plan_collection(dataset, CollectOptions.model_validate(given), output)
    else:
        contexts = tuple(given.pop("context", ()))
        judged = StudyOptions(**given, contexts=contexts, pages=pages)
        study = plan_study(dataset, judged, output, settings=settings)
    study.write()
    tables = plan_tables(study, dataset)
    document = {table.title: table.columns_of_values() for table in tables}
    show(tables, form, {"hash": study.plan.hash, **document})
