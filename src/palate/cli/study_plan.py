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
from palate.study.making import StudyOptions, plan_study, read_consent, read_page_texts


def _usually(value: str, what: str) -> Any:
    return typer.Option(help=what, show_default=value)


@dataclass(frozen=True)
class Judged:
    """Of a study whose raters judge what a model is shown."""

    per_pair: Annotated[int | None, _usually("3", "Raters that each item gets.")] = None
    context: flags.UsualContexts = None
    checks: Annotated[int | None, _usually("4", "Checks that each rater gets.")] = None
    margin: Annotated[float | None, _usually("0.25", "Points that count as alike.")] = None
    most_failed_checks: Annotated[int | None, _usually("1", "Who fails more is excluded.")] = None


@dataclass(frozen=True)
class Collected:
    """Of a study in which users choose between responses to questions."""

    test_share: Annotated[float | None, _usually("0.3", "Share of questions for testing.")] = None
    again: Annotated[float | None, _usually("0.1", "Share of pairs asked once more.")] = None
    per_rater: Annotated[int | None, _usually("30", "Pairs that each rater is asked.")] = None
    model: Annotated[str | None, _usually("none", "Folder of a pref that chooses pairs.")] = None


@dataclass(frozen=True)
class Pages:
    """What raters read beside the items."""

    consent: Annotated[Path | None, typer.Option(help="What raters agree to, in Markdown.")] = None
    texts: Annotated[Path | None, typer.Option(help="Words of the pages, in TOML.")] = None


@flatten_options
def plan(
    benchmark: Annotated[str, flags.benchmark_option(help="Benchmark or file.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the study, a new one.")],
    raters: Annotated[int, typer.Option(help="Places for raters.")],
    *,
    judged: Judged,
    collect: Annotated[
        bool, typer.Option("--collect", help="Users choose between `responses`.")
    ] = False,
    collected: Collected,
    pages: Pages,
    loading: LoadingAnyLayout,
    devices: Devices,
    form: flags.Format = Form.TABLE,
) -> None:
    """Fix who is asked what, under a hash, before anybody is asked."""
    other, mode = (judged, "a study without") if collect else (collected, "a study with")
    if foreign := next(iter(_given(other)), None):
        raise UsageError(f"--{foreign.replace('_', '-')}: an option of {mode} --collect")
    need_new(output)
    settings = devices.settings()
    (dataset,) = loading.load_all([benchmark], devices.seed)
    if collect:
        from palate.study.collecting import CollectOptions, plan_collection

        words = dict(read_page_texts(pages.texts)) | {"consent": read_consent(pages.consent)}
        given = {**_given(collected), **words, "raters": raters, "seed": devices.seed}
        study = plan_collection(dataset, CollectOptions.model_validate(given), output)
    else:
        given = _given(judged)
        contexts = tuple(given.pop("context", ()))
        options = StudyOptions(raters=raters, contexts=contexts, **given, **asdict(pages))
        study = plan_study(dataset, options, output, settings=settings)
    study.write()
    printed = plan_tables(study, dataset)
    document = {table.title: table.columns_of_values() for table in printed}
    show(printed, form, {"hash": study.plan.hash, **document})


def _given(options: Judged | Collected) -> dict[str, Any]:
    return {name: value for name, value in asdict(options).items() if value is not None}
