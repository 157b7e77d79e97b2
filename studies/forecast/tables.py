"""The study's tables, from the documents that study.py left in WORK.

python -m studies.forecast.tables studies/forecast > studies/forecast/tables.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from palate.reports import Form, Table, render
from palate.reports.numbers import p_value, plain
from palate.specs import Spec
from studies.forecast.study import KS

Document = dict[str, Any]
FAMILIES = {
    "similarity": "embeddings",
    "likelihood": "probability",
    "lift": "probability",
    "personal": "heads",
    "classifier": "classifiers",
    "mix": "mixes",
}


def main() -> None:
    """Print the tables."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    documents = {
        k: json.loads((folder / f"best-of-{k}.json").read_text(encoding="utf-8")) for k in KS
    }
    largest = documents[max(KS)]
    tables = [overall(documents), by_family(largest), each_scorer(largest)]
    sys.stdout.write(render(tables, Form.MARKDOWN))


def overall(documents: dict[int, Document]) -> Table:
    """Return how far forecasts held, for each policy and k."""
    columns = ["policy", "k", "n", "mean error", "of saying 0", "cover of 90 %",
               "τ of forecasts", "τ of accuracy", "p"]  # fmt: skip
    scores = [score for document in documents.values() for score in document["forecasts"]]
    rows = [
        [_policy(score), str(score["downstream"]["k"]), str(len(score["scorers"])),
         *(plain(score[name]) for name in ("mean_error", "error_of_zero", "cover")),
         plain(score["tau"]["first"]), plain(score["tau"]["second"]), p_value(score["tau"]["p"])]
        for score in sorted(scores, key=_policy)
    ]  # fmt: skip
    return Table("Forecasts and what came", columns, rows)


def by_family(document: Document) -> Table:
    """Return the same of each family of scorers, and both τ without it."""
    rows = []
    for score in sorted(document["forecasts"], key=_policy):
        names = [(it["scorer"], it["context"]) for it in score["scorers"]]
        forecast, came = (
            np.array([it[f"{side}_value"] for it in score["scorers"]])
            for side in ("metric", "downstream")
        )
        accuracy = _accuracies(document, score)
        right = np.array([accuracy[name] for name in names])
        families = np.array([FAMILIES[Spec.parse(name).kind] for name, _ in names])
        for family in dict.fromkeys(FAMILIES.values()):
            its, others = families == family, families != family
            rows.append([
                _policy(score), family, str(its.sum()),
                plain(forecast[its].mean()), plain(came[its].mean()),
                plain(np.abs(forecast - came)[its].mean()), plain(np.abs(came)[its].mean()),
                plain(kendalltau(forecast[others], came[others])[0]),
                plain(kendalltau(right[others], came[others])[0]),
            ])  # fmt: skip
    columns = ["policy", "family", "n", "mean forecast", "mean of what came", "mean error",
               "of saying 0", "τ of forecasts without it", "τ of accuracy without it"]  # fmt: skip
    return Table(f"By family, best of {max(KS)}", columns, rows, left=2)


def each_scorer(document: Document) -> Table:
    """Return each forecast and what came, for each policy."""
    scores = sorted(document["forecasts"], key=_policy)
    by_scorer: dict[str, list[str]] = {}
    for score in scores:
        accuracy = _accuracies(document, score)
        for it in score["scorers"]:
            spec = it["scorer"].split("@")[0]
            row = by_scorer.setdefault(spec, [plain(accuracy[it["scorer"], it["context"]])])
            row += [plain(it["metric_value"]), plain(it["downstream_value"])]
    columns = ["scorer", "accuracy"]
    for score in scores:
        columns += [f"forecast, {_tokens(score)}", f"came, {_tokens(score)}"]
    rows = [[spec, *cells] for spec, cells in sorted(by_scorer.items())]
    return Table(f"Each scorer, best of {max(KS)}", columns, rows)


def _accuracies(document: Document, score: Document) -> dict[tuple[str, str], float]:
    """Return the mirrored accuracy of each scorer and context, by both specs."""
    (same,) = (
        it
        for it in document["coefficients"]
        if it["metric"] == "mirrored accuracy" and it["downstream"] == score["downstream"]
    )
    return {(it["scorer"], it["context"]): it["metric_value"] for it in same["scorers"]}


def _policy(score: Document) -> str:
    return f"`{score['downstream']['policy']}`"


def _tokens(score: Document) -> str:
    options: Sequence[str] = score["downstream"]["policy"].split("?")[1].split("&")
    return f"{options[0].removeprefix('max_tokens=')} tokens"


if __name__ == "__main__":
    main()
