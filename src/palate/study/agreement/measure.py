"""agreement(STUDY) → how far its raters agree, with and without those who failed their checks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from palate.errors import UsageError
from palate.runs import Manifest, load_runs, read_manifest
from palate.seeding import digest
from palate.study.agreement.panels import counted, panel
from palate.study.agreement.result import Agreement, AgreementSummary, ItemAgreement
from palate.study.agreement.retest import retest_report
from palate.study.folder import read_study
from palate.study.records import AnswerRow
from palate.study.store import read_answers

MARGIN, DAYS = 0.25, 14.0


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

    Raises:
        UsageError: where nobody has answered or somebody twice, for another margin than the plan's,
            and for runs of another seed or that scored no item of two raters.
        RunError: where there is no study, or no run.
        DataError: for a file of answers that cannot be read.
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
    given = Counter((answer.rater, answer.item, answer.again) for answer in answers)
    (rater, item, _), times = given.most_common(1)[0]
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
    panels = [panel(some, loaded, bound) for some in ([included, answers] if out else [answers])]
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
        retest=retest_report(included, days=days),
    )
    folder = None
    if root is not None:
        identity = {
            "benchmark": summary.benchmark,
            "name": summary.study,
            "plan": plan.hash if plan else None,
            "answers": digest([answer.model_dump(mode="json") for answer in answers]),
            "options": [bound, days],
            "runs": [[*run.cell, *run.fingerprints] for run in loaded],
        }
        folder = Manifest.of(Agreement.kind, identity).renew(Path(root))
    result = Agreement(summary, _items(included), folder)
    if folder is not None:
        result.save()
    return result


def _items(answers: Sequence[AnswerRow]) -> tuple[ItemAgreement, ...]:
    """Return what was chosen of each item, most disagreement first."""
    items = defaultdict[str, list[AnswerRow]](list)
    for answer in answers:
        if answer.kind == "pair" and not answer.again:
            items[answer.item].append(answer)
    rows = []
    for item, listed in items.items():
        choices = Counter(sorted(answer.choice for answer in listed))
        sides = [n for choice, n in choices.items() if choice != "skip"]
        couples = sum(sides) * (sum(sides) - 1)
        apart = (couples - sum(n * (n - 1) for n in sides)) / couples if couples else None
        named = {"item": item, "rows": listed[0].rows, "choices": choices}
        rows.append(ItemAgreement.model_validate({**named, "disagreement": apart}))
    rows.sort(key=lambda row: (-(row.disagreement or 0), -sum(row.choices.values()), row.item))
    return tuple(rows)
