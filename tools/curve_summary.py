"""One table out of several `palate learning-curve --format json` documents.

    python tools/curve_summary.py minilm.json smollm2.json
    python tools/curve_summary.py minilm.json smollm2.json --metric particular
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
    "model", "every pair", "lead over bradley-terry, p", "seen", "unseen", "mirrors",
    f"mirrors, minus prior, {FEW} choices", "mirrors, minus prior", "of it seen", "of it unseen",
    "shift",
]  # fmt: skip
METRICS = ["accuracy", "mirrored", "shift", "particular", "gain", "lead"]
PLAIN = ["p", "p_lead", "p_lead_holm"]


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
            write_points(document["curve"], asked.csv / f"{path.stem}.csv")
        return
    if asked.metric is not None:
        tables = [by_choices(document["curve"], asked.metric) for document in documents.values()]
        sys.stdout.write(render(tables, Form.MARKDOWN))
        return
    rows: list[list[str]] = []
    for said in documents.values():
        by = {(one["model"], one["group"], one["choices"]): one for one in said["curve"]}
        for model in dict.fromkeys(one["model"] for one in said["curve"]):
            blind = (model, "all", None) in by
            at = None if blind else "all"
            every, seen, unseen = (by.get((model, g, at), {}) for g in ("all", "seen", "unseen"))
            few = by.get((model, "all", FEW), {})
            row = [
                model, _figure(every, "accuracy"), _lead(every), _figure(seen, "accuracy"),
                _figure(unseen, "accuracy"), _figure(every, "mirrored"), _figure(few, "particular"),
                _figure(every, "particular"), _figure(seen, "particular"),
                _figure(unseen, "particular"), _figure(every, "shift"),
            ]  # fmt: skip
            if row not in rows:  # blind rows are in every document
                rows.append(row)
    sys.stdout.write(render([Table("all choices", COLUMNS, rows)], Form.MARKDOWN))


def by_choices(points: list[dict[str, Any]], metric: str) -> Table:
    """Return one metric of all users, a column per number of choices."""
    points = [point for point in points if point["group"] == "all" and point["choices"] is not None]
    counts = list(dict.fromkeys(point["choices"] for point in points))
    by = {(point["model"], point["choices"]): point for point in points}
    rows = [
        [model, *(_figure(by.get((model, count), {}), metric) for count in counts)]
        for model in dict.fromkeys(point["model"] for point in points)
    ]
    return Table(metric, ["model", *map(str, counts)], rows)


def write_points(points: list[dict[str, Any]], file: Path) -> None:
    """Write one line a point; numbers with five decimals, nothing where there is none."""
    header = ["model", "users", "choices", "n_users", "n_pairs"]
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
                [point[name] for name in ("model", "group", "choices", "n_users", "n_pairs")]
                + ["" if x is None else f"{x:.5f}" for x in numbers]
            )


def _figure(point: dict[str, Any], name: str) -> str:
    found = point.get(name)
    if not found or found["value"] is None:
        return "–"
    if found["low"] is None:
        return f"{found['value']:.3f}"
    return f"{found['value']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def _lead(point: dict[str, Any]) -> str:
    found = point.get("lead")
    if not found:
        return "–"
    p = point["p_lead_holm"]
    shown = "–" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
    ends = "–" if found["low"] is None else f"{found['low']:.3f}, {found['high']:.3f}"
    return f"{found['value']:+.3f} [{ends}] {shown}".replace("-", "−")


if __name__ == "__main__":
    main()
