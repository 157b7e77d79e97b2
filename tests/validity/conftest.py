"""Runs and a downstream file of planted scorers."""

from __future__ import annotations

import json

import pytest
from planted_scorers import Hazy, True_, world

from palate.downstream import best_of_n
from palate.evaluation import evaluate
from palate.reports.best_of import best_of_json


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Return runs and a downstream file of so many scorers, the best first."""
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))

    def make(n: int, n_rows: int = 240, seed: int = 0):
        kinds = {f"hazy{k}": Hazy(f"hazy{k}", 0.02 * 1.3**k) for k in range(n)}
        monkeypatch.setattr(
            "palate.downstream.scores.scoring.build_scorer", lambda text, _: kinds[text]
        )
        pairs, samples = world(n_rows, seed)
        runs = [evaluate(one, pairs, name=name, root=None) for name, one in kinds.items()]
        found = best_of_n(pairs, samples, list(kinds), qualities=[True_()], root=None)
        file = tmp_path / "down.json"
        file.write_text(json.dumps(best_of_json(found), allow_nan=False))
        return runs, file

    return make
