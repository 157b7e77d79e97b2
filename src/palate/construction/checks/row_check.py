"""All checks of a benchmark's rows, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from palate.benchmarks import Dataset
from palate.construction.checks import shared_words, texts
from palate.construction.checks.blind import blind_faults
from palate.construction.checks.gap import Gaps, gap_faults
from palate.evaluation import Work
from palate.quality import QualityMetric
from palate.records import Judge, Scorer


class CheckOptions(NamedTuple):
    """Options of the checks that need more than the rows."""

    adherence: str | QualityMetric | None = None
    """A measure of quality: how far an answer meets a rubric."""
    gap: str = "null:0.95"
    """What a gap must be above: a quantile of those under third users' rubrics, or a number."""
    blind: str | Scorer | Judge | None = None
    """A scorer or judge that is shown nothing of the user."""
    apart: float | None = None
    """The largest margin of a blind scorer, in its points, at which no answer is better."""
    against: Sequence[Path] = ()
    """Files that must share no 13 words with the benchmark."""


class CheckResult(NamedTuple):
    """What one check says of every row."""

    name: str
    details: tuple[str | None, ...]
    """Of each row, why it fails, in words that quote no text of it; else None."""
    n_checked: int
    """Rows that have what the check needs."""
    needs: str | None = None
    """What is missing where no row could be checked."""
    verbatim: tuple[int, int] | None = None
    """Of `quote`: how many evidences are quotations, and how many there are."""
    gaps: Gaps | None = None
    """Of `gap`: the figures behind it."""


def check_rows(pairs: Dataset, options: CheckOptions, work: Work) -> list[CheckResult]:
    """Return what each check says of every row; a check without its option needs it.

    Raises `UsageError` for options that cannot be read or do not fit the rows.
    """
    quoted, verbatim = texts.quote_faults(pairs)
    none: texts.Faults = [None] * len(pairs.pairs)
    against, adherence, blind = options.against, options.adherence, options.blind
    shared = shared_words.contaminated_faults(pairs, against) if against else none
    gap, gaps = gap_faults(pairs, adherence, options.gap, work) if adherence else (none, None)
    better = blind_faults(pairs, blind, options.apart, work) if blind else none
    third_users = "third users with rubrics" if adherence else "--adherence MEASURE"
    return [
        _result("format", "answers", texts.format_faults(pairs)),
        _result("quote", "evidence, and posts or narratives", quoted)._replace(verbatim=verbatim),
        _result("parrot", "narratives, rubrics or references", texts.parrot_faults(pairs)),
        _result("leak", "profiles", shared_words.leak_faults(pairs)),
        _result("later", "dates of questions and posts", texts.later_faults(pairs)),
        _result("repeated", "user ids", texts.repeated_faults(pairs)),
        _result("contaminated", "--against FILE", shared),
        _result("gap", third_users, gap)._replace(gaps=gaps),
        _result("blind", "--blind SCORER", better),
    ]


def _result(name: str, needs: str, faults: texts.Faults) -> CheckResult:
    details = tuple("; ".join(row or ()) or None for row in faults)
    n = sum(row is not None for row in faults)
    return CheckResult(name, details, n, None if n else needs)
