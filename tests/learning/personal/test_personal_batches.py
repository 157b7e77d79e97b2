"""Many users are one job, not many."""

from __future__ import annotations

import numpy as np
import pytest

from palate.learning.methods import pref
from palate.learning.methods.lore import LoRe
from palate.learning.methods.pref import PReF
from palate.learning.personal import Choices
from palate.learning.solvers import simplex


def many(users: int, each: int, width: int) -> Choices:
    stream = np.random.default_rng(0)
    table = stream.standard_normal((500, width), dtype=np.float32) / np.sqrt(width)
    chosen = stream.integers(500, size=users * each)
    rejected = (chosen + 1 + stream.integers(499, size=users * each)) % 500
    return Choices(table, np.repeat(np.arange(users), each), chosen, rejected, users)


def test_lore_adapts_all_users_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, real = [], simplex.simplex_weights

    def counted(rows: np.ndarray, *rest: object) -> np.ndarray:
        calls.append(len(rows))
        return real(rows, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(simplex, "simplex_weights", counted)
    basis = 10 * np.random.default_rng(1).normal(size=(64, 6))
    model = LoRe(basis, np.full(6, 1 / 6), {"concentration": 1.0})
    found = model.adapt(many(2000, 20, 64))["weights"]
    assert calls == [2000]
    assert np.allclose(found.sum(axis=1), 1, atol=1e-5)


def test_pref_adapts_all_users_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, real = [], pref.ridge_offsets

    def counted(rows: np.ndarray, *rest: object) -> np.ndarray:
        calls.append(len(rows))
        return real(rows, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(pref, "ridge_offsets", counted)
    psi = 10 * np.random.default_rng(1).normal(size=(64, 6))
    model = PReF(psi, np.eye(6)[0], np.eye(6), {})
    assert np.isfinite(model.adapt(many(2000, 20, 64))["factors"]).all()
    assert calls == [2000]
