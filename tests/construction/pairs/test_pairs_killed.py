"""Killed anywhere and called again: the same bytes, and no prompt whose reply was kept is sent."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path

from pairs_builds import ScriptedModel, model_at, tasting_rows

from children import called
from endpoints import Loopback
from palate.construction.pair_records import PairsOptions
from palate.construction.pairs import build_pairs
from palate.files import whole_file
from palate.records import Settings
from palate.seeding import rng
from palate.session import Session

POINTS = 20


def build(folder: Path, model: str) -> None:
    os.environ["PALATE_CACHE"] = str(folder / "cache")
    source = folder / "rows.jsonl"
    if not source.exists():
        tasting_rows(source, 8, rubric_aspects=[])
    options = PairsOptions(layout="rows", writers=(model,), reader=model)
    with Session() as session:
        build_pairs(source, folder / "out", options, root=folder / "runs", session=session,
                    settings=Settings())  # fmt: skip


def killed_at(point: int, folder: Path, model: str) -> None:
    """Kill this process when it opens a file for writing for the so manieth time."""
    from palate import files

    opened = iter(range(point))
    whole = files.whole_file

    def counted(*given, **how):  # type: ignore[no-untyped-def]
        if next(opened, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*given, **how)

    for name, module in list(sys.modules.items()):
        if name.startswith("palate") and getattr(module, "whole_file", None) is whole_file:
            module.whole_file = counted  # type: ignore[attr-defined]
    build(folder, model)


def dataset(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "out" / "dataset").iterdir()}


def samples(folder: Path) -> int:
    return len(list((folder / "cache" / "samples").glob("??/*")))


def test_a_killed_build_asks_for_what_lacks_alone(tmp_path) -> None:
    model = ScriptedModel()
    with Loopback(model) as server:
        spec = f"{model_at(server)}&concurrency=1"
        whole = tmp_path / "whole"
        whole.mkdir()
        build(whole, spec)
        asked = Counter(model.prompts)
        expected = dataset(whole)
        assert len(expected) == 2 and sum(asked.values()) == 24, "8 readings, 2 drafts of 8 sides"
        # Samples, then manifest, the audit's three files, data, card, rows and summary.
        places = sorted(rng("killed").choice(24 + 8, POINTS, replace=False).tolist())
        ended = 0
        for point in places:
            folder = tmp_path / f"at-{point}"
            folder.mkdir()
            model.prompts.clear()
            call = f"killed_at({point}, here.Path({str(folder)!r}), {spec!r})"
            code = called(__file__, call)
            ended += code == 0
            assert code in (0, -signal.SIGKILL)
            there, before = samples(folder), len(model.prompts)
            build(folder, spec)
            assert dataset(folder) == expected
            assert samples(folder) == samples(whole)
            again = Counter(model.prompts[before:])
            assert set(again) <= set(asked) and max([0, *again.values()]) <= 1
            assert len(again) == sum(asked.values()) - there, "what was kept is not sent again"
        assert ended <= 2, "the points lie within the build"
