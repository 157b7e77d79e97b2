"""One table out of several `palate learning-curve --format json` documents.

    python tools/curve_summary.py minilm.json smollm2.json
    python tools/curve_summary.py minilm.json smollm2.json --metric residual_accuracy
    python tools/curve_summary.py minilm.json smollm2.json --csv studies/learning_curves

The table has a row per model; per user all choices, but where a column says otherwise. With
`--metric` it has a column per number of choices, of all users. With `--csv` every point goes into
FOLDER/NAME.csv instead, one file a document: value and interval of each metric by model, group of
users and choices.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import Any

from palate.reports import Form, Table, render

FEW = 20
COLUMNS = [
    "model", "every pair", "gain over bradley-terry, p", "trained on", "held out", "mirrors",
    f"residual, {FEW} choices", "residual", "of it trained on", "of it held out", "concordance",
]  # fmt: skip
METRICS = [
    "accuracy", "mirrored_accuracy", "concordance", "residual_accuracy", "gain",
    "gain_over_reference",
]  # fmt: skip
PLAIN = ["p_gain", "p_gain_over_reference", "p_gain_over_reference_holm"]


def main() -> None:
    """Print the table as Markdown, or write the points."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("documents", nargs="+", type=Path)
    parser.add_argument("--metric", choices=METRICS)
    parser.add_argument("--csv", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    documents = {path: json.loads(path.read_text(encoding="utf-8")) for path in asked.documents}
    if asked.csv is not None:
        asked.csv.mkdir(parents=True, exist_ok=True)
        for path, document in documents.items():
            write_points(document["points"], asked.csv / f"{path.stem}.csv")
        return
    if asked.metric is not None:
        tables = [by_choices(document["points"], asked.metric) for document in documents.values()]
        sys.stdout.write(render(tables, Form.MARKDOWN))
        return
    rows: list[list[str]] = []
    for said in documents.values():
        by = {(one["model"], one["group"], one["shots"]): one for one in said["points"]}
        for model in dict.fromkeys(one["model"] for one in said["points"]):
            blind = (model, "all", None) in by
            at = None if blind else "all"
            groups = ("all", "trained", "held_out")
            every, trained, held_out = (by.get((model, g, at), {}) for g in groups)
            few = by.get((model, "all", FEW), {})
            residual = [
                _figure(one, "residual_accuracy") for one in (few, every, trained, held_out)
            ]
            row = [
                model, _figure(every, "accuracy"), _gain(every), _figure(trained, "accuracy"),
                _figure(held_out, "accuracy"), _figure(every, "mirrored_accuracy"), *residual,
                _figure(every, "concordance"),
            ]  # fmt: skip
            if row not in rows:  # blind rows are in every document
                rows.append(row)
    sys.stdout.write(render([Table("all choices", COLUMNS, rows)], Form.MARKDOWN))


def by_choices(points: list[dict[str, Any]], metric: str) -> Table:
    """Return one metric of all users, a column per number of choices."""
    points = [point for point in points if point["group"] == "all" and point["shots"] is not None]
    counts = list(dict.fromkeys(point["shots"] for point in points))
    by = {(point["model"], point["shots"]): point for point in points}
    rows = [
        [model, *(_figure(by.get((model, count), {}), metric) for count in counts)]
        for model in dict.fromkeys(point["model"] for point in points)
    ]
    return Table(metric, ["model", *map(str, counts)], rows)


def write_points(points: list[dict[str, Any]], file: Path) -> None:
    """Write one line a point; numbers with five decimals, nothing where there is none."""
    header = ["model", "users", "shots", "n_users", "n_pairs"]
    header += [f"{name}{end}" for name in METRICS for end in ("", "_low", "_high")] + PLAIN
    with file.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(header)
        for point in points:
            numbers = [
                (point.get(name) or {}).get(end)
                for name in METRICS
                for end in ("value", "low", "high")
            ]
            numbers += [point.get(name) for name in PLAIN]
            rows.writerow(
                [point[name] for name in ("model", "group", "shots", "n_users", "n_pairs")]
                + ["" if x is None else f"{x:.5f}" for x in numbers]
            )


def _figure(point: dict[str, Any], name: str) -> str:
    found = point.get(name)
    if not found or found["value"] is None:
        return "–"
    if found["low"] is None:
        return f"{found['value']:.3f}"
    return f"{found['value']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def _gain(point: dict[str, Any]) -> str:
    found = point.get("gain_over_reference")
    if not found:
        return "–"
    p = point["p_gain_over_reference_holm"]
    shown = "–" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
    ends = "–" if found["low"] is None else f"{found['low']:.3f}, {found['high']:.3f}"
    return f"{found['value']:+.3f} [{ends}] {shown}".replace("-", "−")


if __name__ == "__main__":
    main()
