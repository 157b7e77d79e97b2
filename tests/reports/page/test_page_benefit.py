"""What users get: best-of-n, validity and learning curves on the page, with runs and without."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest
from every_kind import save_best_of_n, save_learning_curve, save_validity
from opened_page import page_of
from planted_results import save_uses

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def downstream(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("downstream")
    save_best_of_n(root)
    return root


def test_best_of_n_and_validity(downstream, tmp_path):
    save_validity(downstream)
    html = page_of(downstream, tmp_path)
    for name in ("best-of-2-0", "validity-3-0"):
        assert f'<figure id="{name}">' in html
    assert "best-of-n-2.json" in html
    assert "CANARY" not in html
    assert "oracle share" in html


def test_a_page_without_a_run(downstream, tmp_path):
    html = page_of(downstream / "best", tmp_path)
    assert "<h1>What users get</h1>" in html
    assert 'id="scorers"' not in html
    assert 'id="benefit"' in html


def test_learning_curves(tmp_path):
    save_learning_curve(tmp_path)
    html = page_of(tmp_path / "curves", tmp_path)
    assert '<figure id="choices-1-accuracy">' in html
    assert '<figure id="choices-1-mirrored_accuracy">' in html
    assert str(tmp_path) not in html


def test_every_kind_of_result_has_a_part(tmp_path):
    save_uses(tmp_path / "runs")
    html = page_of(tmp_path / "runs", tmp_path)
    for name in ("policy-accuracy-2", "ppo-3-0", "ppo-3-1"):
        assert f'<figure id="{name}">' in html
    for words in (
        "Answers that a scorer guides",
        "did guidance act?",
        "Does a policy that is steered prefer what its user chose?",
        "does the better reward make the better policy?",
        "What training on a scorer’s reward gives held-out users",
        "held-out users on the way",
    ):
        assert words in html.replace("&#39;", "’").replace("'", "’"), words
    kinds = {point.name for point in entry_points(group="palate.results")}
    assert kinds - {"run", "scores"} == {
        point.name for point in entry_points(group="palate.sections")
    }
