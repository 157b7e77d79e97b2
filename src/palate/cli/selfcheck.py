"""palate selfcheck: figures and intervals against planted truth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.console import bars, err, show
from palate.reports import Form, Table
from palate.runs import as_document
from palate.selfcheck import WorldCheck, selfcheck


def check_self(
    worlds: Annotated[int, typer.Option(help="How many worlds to plant; at least 20.")] = 500,
    seed: flags.Seed = 0,
    form: flags.Format = Form.TABLE,
) -> None:
    """Check figures and intervals against planted truth."""
    started = time.monotonic()
    with bars() as shown:
        checks = selfcheck(worlds, seed, progress=shown.start("planted worlds"))
    listed = [{**check.model_dump(mode="json"), "ok": check.ok} for check in checks]
    document = as_document("selfcheck", {"worlds": worlds, "seed": seed, "checks": listed})
    show([_table(checks, worlds, seed)], form, document)
    failed = sum(not check.ok for check in checks)
    err.print(f"{len(checks)} checks in {time.monotonic() - started:.0f} s", highlight=False)
    if failed:
        err.print(f"palate: {failed} of {len(checks)} checks failed", style="bold red")
        raise typer.Exit(1)


def _table(checks: Sequence[WorldCheck], worlds: int, seed: int) -> Table:
    rows = [
        [
            check.kind,
            check.what,
            check.rows,
            str(check.worlds),
            _number(check, check.value),
            _bar(check),
            "yes" if check.ok else "NO",
        ]
        for check in checks
    ]
    kinds = [check.kind for check in checks]
    breaks = frozenset(k for k in range(len(kinds) - 1) if kinds[k] != kinds[k + 1])
    columns = ["check", "of", "rows", "worlds", "value", "bar", "ok"]
    notes = [
        "point interval: largest distance from 0.5 of the figure and both ends.",
        "mean error: mean of figure − truth; bar: 3 Monte-Carlo standard errors.",
        "coverage: share of worlds whose 95 % interval holds the truth.",
        "false alarms: share of worlds with p < 0.05 where nothing is gained.",
        "route: rows in which evaluate and the planted margins disagree.",
    ]
    title = f"planted truth: {worlds} worlds, seed {seed}"
    return Table(title, columns, rows, notes, 3, breaks)


def _bar(check: WorldCheck) -> str:
    if check.low == check.high:
        return _number(check, check.low)
    if check.low == -check.high:
        return f"±{_number(check, check.high)}"
    return f"{_number(check, check.low)} to {_number(check, check.high)}"


def _number(check: WorldCheck, value: float) -> str:
    if check.kind == "route":
        return f"{value:.0f}"
    if check.kind == "point interval":
        return f"{value:.3g}"
    digits = 4 if check.kind == "mean error" else 3
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")
