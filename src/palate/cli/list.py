"""palate list: what there is."""

from __future__ import annotations

import inspect

import typer

from palate.benchmarks import list_benchmarks
from palate.cli import options as flags
from palate.cli.console import show
from palate.cli.declare import argument
from palate.contexts import GROUP as CONTEXTS
from palate.learning import METHODS, P_DPO, train_p_dpo
from palate.quality.measure import GROUP as QUALITIES
from palate.reports import Form, Table
from palate.runs import as_document
from palate.scorers import GROUP as SCORERS
from palate.specs import registered

KINDS = ("benchmarks", "scorers", "contexts", "methods", "qualities")


def list_things(
    kind: str | None = argument(None, "benchmarks, scorers, contexts, methods or qualities"),
    form: Form = flags.FORMAT,
) -> None:
    """List benchmarks, scorers, contexts, methods and qualities, installed packages' too."""
    if kind is not None and kind not in KINDS:
        raise typer.BadParameter(f"expected one of {', '.join(KINDS)}", param_hint="KIND")
    tables: list[Table] = []
    if kind in (None, "benchmarks"):
        rows = [[b.name, b.description, b.licence] for b in list_benchmarks()]
        tables.append(
            Table("benchmarks", ["name", "what it is", "licence"], rows, (), 3, prose=True)
        )
    groups = {"scorers": SCORERS, "contexts": CONTEXTS, "methods": METHODS, "qualities": QUALITIES}
    for name, group in groups.items():
        if kind in (None, name):
            rows = [
                [key, _first_sentence(point.load())] for key, point in registered(group).items()
            ]
            if name == "methods":
                rows.append([P_DPO, _first_sentence(train_p_dpo)])
            tables.append(Table(name, ["kind", "what it is"], rows, (), 2, prose=True))
    listed = {
        table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        for table in tables
    }
    show(tables, form, as_document("list", listed))


def _first_sentence(thing: object) -> str:
    text = inspect.getdoc(thing) or ""
    return text.split("\n\n", maxsplit=1)[0].replace("\n", " ")
