"""palate selfcheck: does palate find what was planted, and write by the laws it says?"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from palate.cli import options as flags
from palate.cli.console import bars, err, show
from palate.reports import Form, Table
from palate.runs import as_document
from palate.selfcheck import WorldCheck, selfcheck

if TYPE_CHECKING:
    from palate.selfcheck.decoding import LawCheck


class Subject(StrEnum):
    """What is checked."""

    STATISTICS = "statistics"
    DECODING = "decoding"


def check_self(
    subject: Annotated[
        Subject,
        typer.Argument(
            help="statistics: accuracies, gains and intervals on planted worlds; "
            "decoding: the laws of guided writing on models of eight words."
        ),
    ] = Subject.STATISTICS,
    worlds: Annotated[
        int, typer.Option(help="How many worlds to plant; at least 20. Only for statistics.")
    ] = 500,
    seed: flags.Seed = 0,
    form: flags.Format = Form.TABLE,
) -> None:
    """Check figures and intervals against planted truth, or guided writing by enumeration."""
    started = time.monotonic()
    if subject is Subject.STATISTICS:
        with bars() as shown:
            planted = selfcheck(worlds, seed, progress=shown.start("planted worlds"))
        checks: Sequence[WorldCheck | LawCheck] = planted
        table, body = _table(planted, worlds, seed), {"worlds": worlds, "seed": seed}
    else:
        from palate.selfcheck.decoding import check_decoding

        with bars() as shown:
            laws = check_decoding(seed, progress=shown.start("laws"))
        checks, table, body = laws, _laws(laws, seed), {"seed": seed}
    listed = [{**check.model_dump(mode="json"), "ok": check.ok} for check in checks]
    kind = "selfcheck" if subject is Subject.STATISTICS else f"selfcheck {subject}"
    show([table], form, as_document(kind, {**body, "checks": listed}))
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


def _laws(checks: Sequence[LawCheck], seed: int) -> Table:
    rows = [
        [
            check.kind,
            check.what,
            f"{check.responses:,}",
            _short(check.value),
            _between(check.low, check.high),
            "" if check.moved is None else f"{check.moved:.2f}",
            "" if check.from_tilt is None else f"{check.from_tilt:.2f}",
            "yes" if check.ok else "NO",
        ]
        for check in checks
    ]
    kinds = [check.kind for check in checks]
    breaks = frozenset(k for k in range(len(kinds) - 1) if kinds[k] != kinds[k + 1])
    columns = ["check", "of", "responses", "value", "bar", "moved", "from tilt", "ok"]
    notes = [
        "own law, not the tilt: total variation between the engine's law and the one named.",
        "samples: p of a chi-square test against the listed law.",
        "divergence: mean of the divergences told − the listed one, in standard errors.",
        "tilt, w = 0, w → 0, w → ∞: largest error of a log-density, its ratio to w, or its order.",
        "moved: total variation between policy and guided law; bar: 0.2 or more.",
        "from tilt: total variation between the guided law and p exp(R) / Z.",
    ]
    return Table(f"laws of guided writing: seed {seed}", columns, rows, notes, 2, breaks)


def _between(low: float, high: float) -> str:
    if math.isinf(high):
        return f"≥ {_short(low)}"
    if low == 0:
        return f"≤ {_short(high)}"
    return f"±{_short(high)}" if low == -high else f"{_short(low)} to {_short(high)}"


def _short(number: float) -> str:
    return f"{number:.2g}".replace("-", "−")
