"""Section 10: what users get where scorers pick answers, and what more choices are worth."""

from __future__ import annotations

from collections.abc import Iterator

from palate.metrics import Estimate
from palate.reports.best_of import best_of_tables
from palate.reports.curve import curve_tables
from palate.reports.decoding import decode_tables
from palate.reports.names import short_names
from palate.reports.page.contents import Contents
from palate.reports.page.figures.curves import best_of_lines, learning_lines, validity_dots
from palate.reports.page.names import Names
from palate.reports.page.parts import Picture, Section, Text
from palate.reports.validity import validity_tables
from palate.uses.best_of_n import BestOfResult
from palate.uses.decode import DecodeResult
from palate.uses.learning_curve import LearningCurve
from palate.validity import Validity

MOST_LINES = 12


def benefit(contents: Contents) -> Section:
    """Return what there is of best-of-n, guided decoding, validity and learning curves."""
    parts: list[object] = []
    for k, result in enumerate(contents.others, 1):
        if isinstance(result, BestOfResult):
            parts += _best_of(result, contents.names, k)
        elif isinstance(result, DecodeResult):
            parts.append(Text("Answers that a scorer guides", "h3"))
            parts += [contents.names.table(table) for table in decode_tables(result)]
        elif isinstance(result, Validity):
            parts += _validity(result, contents.names, k)
        elif isinstance(result, LearningCurve):
            parts += _curves(result, contents.names, k)
    return Section("benefit", "What users get", parts)


def _best_of(result: BestOfResult, names: Names, number: int) -> Iterator[object]:
    summary = result.summary
    yield Text("The best of n answers, chosen by a scorer", "h3")
    qualities = dict.fromkeys(selection.quality for selection in summary.selections)
    tables = [names.table(table) for table in best_of_tables(result)]
    for k, (quality, table) in enumerate(zip(qualities, tables, strict=True)):
        picked = [each for each in summary.selections if each.quality == quality][:MOST_LINES]
        short = short_names([each.scorer for each in picked])
        several = len({each.context for each in picked}) > 1
        labels = [
            names.public(short[each.scorer])
            + (f", {names.context(each.context)}" if several else "")
            for each in picked
        ]
        yield Picture(
            f"best-of-{number}-{k}", f"Quality of the best of n, {names.public(quality)}",
            "Quality of the answer that a scorer picks among so many. The dotted line is the best "
            "possible pick, the dashed line one sample. Lines are 95 % intervals.",
            table, best_of_lines(labels, picked, summary.ks),
        )  # fmt: skip


def _validity(result: Validity, names: Names, number: int) -> Iterator[object]:
    yield Text("Does the benchmark predict it?", "h3")
    tables = [names.table(table) for table in validity_tables(result)]
    some = result.summary.coefficients[:MOST_LINES]
    for k, coefficient in enumerate(some):
        short = short_names([each.scorer for each in coefficient.scorers])
        labels = [names.public(short[each.scorer]) for each in coefficient.scorers]
        quality = names.public(coefficient.downstream.quality).partition(":")[0]
        yield Picture(
            f"validity-{number}-{k}",
            f"{coefficient.metric} on {coefficient.benchmark} and "
            f"{names.public(coefficient.downstream.answers)}",
            "A dot is a scorer: its value on the benchmark, and the quality of what users get.",
            tables[0], validity_dots(labels, coefficient, quality),
        )  # fmt: skip
    yield from tables


def _curves(result: LearningCurve, names: Names, number: int) -> Iterator[object]:
    yield Text("What more choices of a user are worth", "h3")
    everybody = [point for point in result.points if point.group == "all"]
    counts = sorted({point.shots for point in everybody if isinstance(point.shots, int)})
    tables = [names.table(table) for table in curve_tables(result)]
    metrics = {"accuracy": "Accuracy", "mirrored_accuracy": "Accuracy on mirrored couples"}
    for metric, title in metrics.items():
        lines: dict[str, list[tuple[int, Estimate]]] = {}
        for point in everybody:
            estimate = getattr(point, metric)
            if isinstance(point.shots, int) and estimate is not None and estimate.value is not None:
                lines.setdefault(names.public(point.model), []).append((point.shots, estimate))
        if not lines:
            continue
        shown = [each for each in tables if each.title.startswith("accuracy on")]
        table = shown[0] if shown and metric != "accuracy" else tables[0]
        yield Picture(
            f"choices-{number}-{metric}", f"{title} against choices per user",
            "A line is a model; short vertical lines are 95 % intervals.", table,
            learning_lines(dict(list(lines.items())[:MOST_LINES]), counts,
                           half=metric != "accuracy"),
        )  # fmt: skip
