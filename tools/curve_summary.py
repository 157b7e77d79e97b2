"""One table out of several `palate learning-curve --format json` documents.

    python tools/curve_summary.py minilm.json smollm2.json

A row per model; per user all choices, but where a column says otherwise.
"""

from __future__ import annotations

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


def main() -> None:
    """Print the table as Markdown."""
    rows: list[list[str]] = []
    for path in sys.argv[1:]:
        said = json.loads(Path(path).read_text(encoding="utf-8"))
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
    shown = "<0.001" if p < 0.001 else f"{p:.3f}"
    text = f"{found['value']:+.3f} [{found['low']:.3f}, {found['high']:.3f}] {shown}"
    return text.replace("-", "−")


if __name__ == "__main__":
    main()
