"""agreement(STUDY) → how far its raters agree, with and without those who failed their checks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal

from palate.errors import UsageError
from palate.metrics import Clusters, clustered_mean, group_gap
from palate.records import Record, read_date
from palate.records.arguments import grouped
from palate.runs import Manifest, RecordResult, ReportedEstimate, load_runs, read_manifest
from palate.seeding import digest
from palate.study.answers import read_answers
from palate.study.panels import Panel, counted, panel
from palate.study.records import AnswerRow, Choice, read_study

MARGIN, DAYS = 0.25, 14.0


class RetestReport(Record):
    """What repeats tell of raters; intervals by the jackknife over raters and pairs."""

    agreement: ReportedEstimate
    """Share of repeats with the same choice, a."""
    n_undecided: int
    """Repeats left out since one of the answers names no side."""
    ceiling: tuple[float, float] | None
    """Bounds of the best scorer's accuracy; an a below ½ is luck and counts as ½."""
    days: float
    n_late: int
    """Repeats more than so many days later."""
    drift: ReportedEstimate
    """Share of changed choices among late repeats, less that among the others."""
    p: float | None
    """Of the drift."""
    drifted: Literal["found", "not shown"]


def agreement(
    source: Path | str,
    runs: Iterable[Path | str] = (),
    *,
    margin: float | None = None,
    days: float = DAYS,
    root: Path | str | None = "runs",
) -> Agreement:
    """Measure how far raters agree with each other, with scorers and over time.

    `source` is a study's folder, or a file of its answers; `runs` are folders that hold runs. A
    study's margin is its plan's; of a file it is `margin`, or 0.25 points. What repeats change
    after so many `days` beyond what they change before is drift. With a `root` the result is kept
    at `root/<benchmark>/agreement/<name>-<8 hex>`.

    Raises `UsageError` where nobody has answered or somebody twice, for another margin than the
    plan's, and for runs of another seed or that scored no item of two raters; `RunError` where
    there is no study, or no run; `DataError` for a file of answers that cannot be read.
    """
    path = Path(source)
    study = read_study(path) if path.is_dir() else None
    plan = study.plan if study else None
    if not days >= 0:
        raise UsageError(f"--days {days:g}: expected 0 or more")
    if margin is not None and (not margin > 0 or (plan and margin != plan.margin)):
        fixed = f"fixed as {plan.margin:g} before anybody was asked" if plan else "a number above 0"
        raise UsageError(f"--margin {margin:g}: the margin is {fixed}")
    bound = plan.margin if plan else margin or MARGIN
    answers = read_answers(study or path)
    if not counted(answers):
        raise UsageError(f"{path}: nobody has answered an item yet")
    counts = Counter((answer.rater, answer.item, answer.again) for answer in answers)
    (rater, item, _), times = counts.most_common(1)[0]
    if times > 1:
        raise UsageError(f"{path}: {rater} answers item {item} {times} times; leave one of them")
    # A run of people holds the very answers that it would be held against.
    every = load_runs(runs)
    loaded = [run for run in every if not run.summary.scorer.startswith("people:")]
    for run in loaded:
        other = plan and run.folder and read_manifest(run.folder).identity["seed"] != plan.seed
        if other and run.summary.context != "none":
            raise UsageError(
                f"{run.folder}: its seed is not the study's, so other texts may be shown; evaluate "
                f"with --seed {plan.seed if plan else 0}"
            )
    out = {answer.rater for answer in answers if answer.excluded}
    included = [answer for answer in answers if answer.rater not in out]
    panels = [panel(rows, loaded, bound) for rows in ([included, answers] if out else [answers])]
    if every and not any(figure.group == "scorers" for figure in panels[-1].figures):
        raise UsageError(
            "agreement: no run here, those of people apart, scored an item of two raters; evaluate "
            "the benchmark of the study under its contexts"
        )
    summary = AgreementSummary(
        study=path.resolve().name if study else path.stem,
        benchmark=plan.benchmark if plan else path.stem,
        margin=bound,
        most_failed_checks=plan.most_failed_checks if plan else None,
        excluded=len(out),
        panels=tuple(panels),
        retest=retest_report(included, days),
    )
    content = digest([answer.model_dump(mode="json") for answer in answers])
    identity: dict[str, Any] = {"benchmark": summary.benchmark, "name": summary.study}
    identity |= {"plan": plan and plan.hash, "answers": content, "options": [bound, days]}
    identity |= {"runs": [[*run.cell, *run.fingerprints] for run in loaded]}
    manifest = Manifest.of(Agreement.kind, identity)
    return Agreement(summary, _item_agreements(included)).saved(root, manifest)


def _item_agreements(answers: Sequence[AnswerRow]) -> tuple[ItemAgreement, ...]:
    """Return what was chosen of each item, most disagreement first."""
    answered = [row for row in answers if row.kind == "pair" and not row.again]
    rows = []
    for item, listed in grouped(answered, lambda row: row.item).items():
        choices = Counter(sorted(answer.choice for answer in listed))
        sides = [n for choice, n in choices.items() if choice != "skip"]
        couples = sum(sides) * (sum(sides) - 1)
        apart = (couples - sum(n * (n - 1) for n in sides)) / couples if couples else None
        named = {"item": item, "rows": listed[0].rows, "choices": choices}
        rows.append(ItemAgreement.model_validate({**named, "disagreement": apart}))
    rows.sort(key=lambda row: (-(row.disagreement or 0), -sum(row.choices.values()), row.item))
    return tuple(rows)


class AgreementSummary(Record):
    """Everything `palate agreement` prints but the items."""

    study: str
    benchmark: str
    margin: float
    """In points of a rating."""
    most_failed_checks: int | None
    """Who failed more is excluded; None where no plan was read."""
    excluded: int
    """Raters."""
    panels: tuple[Panel, ...]
    """Without the excluded; then with them, where there are any."""
    retest: RetestReport | None
    """Of items that raters were asked again; without the excluded."""


class ItemAgreement(Record):
    """What raters chose of one item, without the excluded."""

    item: str
    rows: tuple[tuple[str, str], ...]
    """(context, row id) of the benchmark's rows behind it."""
    choices: Mapping[Choice, int]
    disagreement: float | None
    """Share of pairs of raters who chose differently; None below two."""


@dataclass(frozen=True)
class Agreement(RecordResult[AgreementSummary, ItemAgreement]):
    """How far raters agree, and their items, those first that they disagree on most."""

    kind: ClassVar[str] = "agreement"
    content_type, row_type = AgreementSummary, ItemAgreement


def retest_report(answers: Sequence[AnswerRow], days: float = DAYS) -> RetestReport | None:
    """Compare each repeat with its rater's answer to the pair before; None without repeats.

    With p a pair's chance of its likelier answer, repeats agree in a share a = E[p² + (1 − p)²],
    and the best scorer is right in a share E p, which is at least a and at most (1 + √(2a − 1))/2.
    """
    first = {(row.rater, row.item): row for row in answers if not row.again}
    again = [row for row in answers if row.again and (row.rater, row.item) in first]
    repeats = [(first[row.rater, row.item], row) for row in again]
    if not repeats:
        return None
    # Scorers are measured on decided choices, so theirs is the ceiling.
    decided = [both for both in repeats if not {row.choice for row in both} & {"same", "skip"}]
    raters, pairs = [row.rater for _, row in decided], [row.pair for _, row in decided]
    clusters = Clusters.of(raters, questions=pairs)
    changed = [float(before.choice != row.choice) for before, row in decided]
    dates = [[read_date(row.date).start for row in both] for both in decided]
    late = [after - before > timedelta(days) for before, after in dates]
    agreement = clustered_mean([1 - value for value in changed], clusters)
    drift = group_gap(changed, late, clusters)
    a = None if agreement.value is None else max(0.5, agreement.value)
    is_drift = (drift.value or 0) > 0 and drift.p is not None and drift.p < 0.05
    return RetestReport(
        agreement=ReportedEstimate.of(agreement),
        n_undecided=len(repeats) - len(decided),
        ceiling=None if a is None else (a, (1 + math.sqrt(2 * a - 1)) / 2),
        days=days,
        n_late=sum(late),
        drift=ReportedEstimate.of(drift),
        p=drift.p,
        drifted="found" if is_drift else "not shown",
    )
