"""Which runs are of one benchmark, and none of them there twice."""

from __future__ import annotations

from collections.abc import Sequence

from palate.errors import ComparisonError
from palate.runs import Run, read_manifest

HASHED = {
    "rows": "rows",
    "columns": "columns",
    "fingerprints": "model or code",
    "context_fingerprint": "what the context is made with",
}
"""Parts of a run's identity whose values tell a reader nothing, in words."""


def group_of(run: Run) -> str:
    """Return the group a run is compared in: mirrored couples stand apart from whole sets."""
    name = run.summary.benchmark
    return f"{name} (mirrored couples)" if run.verdicts.mirrored else name


def refuse_duplicates(runs: Sequence[Run]) -> None:
    """Raise `ComparisonError` for two runs of one scorer under one context in one group."""
    seen: dict[tuple[str, str, str], Run] = {}
    for run in runs:
        scorer, context = run.summary.scorer, run.summary.context
        first = seen.setdefault((group_of(run), scorer, context), run)
        if first is not run:
            raise ComparisonError(
                f"{scorer} under {context} is there twice, with other settings: {first.folder} and "
                f"{run.folder}{_differences(first, run)}; name one of them"
            )


def _differences(first: Run, second: Run) -> str:
    if first.folder is None or second.folder is None:
        return ""
    a, b = (read_manifest(folder).identity for folder in (first.folder, second.folder))
    words = [
        HASHED.get(name) or f"{name} ({_word(a.get(name))}, {_word(b.get(name))})"
        for name in dict.fromkeys([*a, *b])
        if a.get(name) != b.get(name)
    ]
    return f" differ in {', '.join(words)}" if words else ""


def _word(value: object) -> str:
    return "none" if value is None else str(value)
