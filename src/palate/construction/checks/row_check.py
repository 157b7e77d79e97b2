"""All checks of a benchmark's rows, in their order."""

from __future__ import annotations

from palate.benchmarks import Dataset
from palate.construction.checks.check_result import CheckOptions, CheckResult, Gaps
from palate.construction.checks.texts import (
    check_format,
    check_later,
    check_leak,
    check_parrot,
    check_quote,
    check_repeated,
)
from palate.evaluation import Work

__all__ = ["CheckOptions", "CheckResult", "Gaps", "check_rows"]
OF_TEXTS = (check_format, check_quote, check_parrot, check_leak, check_later, check_repeated)


def check_rows(pairs: Dataset, options: CheckOptions, work: Work) -> list[CheckResult]:
    """Return what each check says of every row.

    Raises `UsageError` for options that cannot be read or do not fit the rows.
    """
    n = len(pairs.pairs)
    results = [check(pairs) for check in OF_TEXTS]
    for name, option in (
        ("contaminated", "--against FILE"),
        ("gap", "--adherence MEASURE"),
        ("blind", "--blind SCORER"),
    ):
        results.append(CheckResult.missing(name, n, option))
    return results
