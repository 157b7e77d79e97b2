"""Figures of a summary against those that the rows give."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path

from palate.evaluation import summarise
from palate.runs import SUMMARY, Manifest, Summary, Verdicts, as_document
from palate.specs import Spec

UNSEEN = (
    *("oracle", "models", "parts_dropped", "leaks_dropped", "shortfall_words", "noise"),
    *("searches_unmatched", "split_texts", "notes", "alarms"),
)
"""Fields of a summary that no row tells."""
OF_DATA = ("undecided_rows", "bad_rows")
WITH_STATES = ("personal", "policy")
"""Scorers of which concordance is of margins that the scale of a user's state divides."""
ALIKE = 1e-9
"""Sums differ by less between processors, of themselves."""


def figure_problems(
    folder: Path, manifest: Manifest, verdicts: Verdicts, summary: Summary, data: Mapping[str, int]
) -> tuple[list[str], list[str]]:
    """Return the lines of `summary.json` that the rows do not give, and the fields not seen.

    `data` are the fields that the data tell, where these are there.
    """
    identity, kind = manifest.identity, Spec.parse(manifest.identity["scorer"]).kind
    recomputed = summarise(
        verdicts,
        **{name: identity[name] for name in ("benchmark", "scorer", "context", "protocol", "seed")},
        **{**{name: getattr(summary, name) for name in (*UNSEEN, *OF_DATA)}, **data},
        log_odds=summary.calibration is not None,
    )
    unseen = [*UNSEEN, *(name for name in OF_DATA if name not in data)]
    if summary.calibration is None:
        unseen.append("whether there is a calibration")
    if kind in WITH_STATES and verdicts.mirrored:
        unseen.append("concordance")
        recomputed = recomputed.model_copy(update={"concordance": summary.concordance})
    document = as_document(manifest.kind, recomputed.model_dump(mode="json"))
    wanted = json.dumps(document, indent=1, ensure_ascii=False).split("\n")
    written = (folder / SUMMARY).read_text(encoding="utf-8").rstrip("\n").split("\n")
    both = enumerate(zip_longest(written, wanted, fillvalue=""), 1)
    return [
        f"{folder / SUMMARY}:{number}: {here.strip()} – the rows give {there.strip()}"
        for number, (here, there) in both
        if here != there and not _alike(here, there)
    ], unseen


def _alike(here: str, there: str) -> bool:
    (name, _, a), (other, _, b) = (line.strip(" ,").rpartition(" ") for line in (here, there))
    try:
        return name == other and math.isclose(float(a), float(b), rel_tol=ALIKE)
    except ValueError:
        return False
