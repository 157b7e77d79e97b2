"""Runs and best-of-n results of planted scorers."""

from __future__ import annotations

import pytest
from planted_scorers import Hazy, truth, world

from pairs import register
from palate.comparison import evaluate
from palate.uses.best_of_n import best_of_n


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Return runs and a best-of-n result of so many scorers, the best first."""
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))

    def make(n: int, n_rows: int = 240, seed: int = 0, root=None, some=slice(None), **options):
        kinds = {f"hazy{k}": Hazy(f"hazy{k}", 0.02 * 1.3**k) for k in range(n)}
        register(monkeypatch, **kinds)
        pairs, samples = world(n_rows, seed)
        runs = [evaluate(pairs, one, "none", name=name, root=root) for name, one in kinds.items()]
        names = list(kinds)[some]
        return runs, best_of_n(pairs, samples, names, qualities=[truth()], root=root, **options)

    return make
