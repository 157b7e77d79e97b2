"""What users get: best-of-n, validity and learning curves on the page, with runs and without."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from planted_results import save_uses

from palate import best_of_n, learning_curve, train, validity
from palate.benchmarks import load_benchmark
from palate.evaluation import evaluate
from palate.learning import adapt
from palate.quality import QualityScore
from palate.reports.page import report

pytest.importorskip("matplotlib")
SCORERS = ("longest", "shortest", "random")


class Words:
    """As many words, as much quality."""

    spec, fingerprint, needs, surrogate, details = "words:./CANARY/w", "w", (), False, {}

    def check(self, pairs):
        pass

    def rate(self, items):
        for k, item in enumerate(items):
            yield k, QualityScore(value=min(len(item.response.split()) / 10, 1.0))


@pytest.fixture(scope="module")
def downstream(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("downstream")
    questions = load_benchmark("tasting", limit=12)
    with (root / "answers.jsonl").open("w", encoding="utf-8") as file:
        for k, row in enumerate(questions.rows):
            own = [f"An answer of {'some ' * (k % 3 + n)}words." for n in range(4)]
            file.write(json.dumps({"id": row.id, "samples": own}) + "\n")
    best_of_n(questions, root / "answers.jsonl", SCORERS, qualities=[Words()], root=root / "best")
    return root


def test_best_of_n_and_validity(downstream, tmp_path):
    questions = load_benchmark("tasting", limit=12)
    for scorer in SCORERS:
        evaluate(questions, scorer, root=downstream / "runs")
    validity(downstream, metrics=["mirrored accuracy"], root=downstream)
    report(downstream, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    for name in ("best-of-1-0", "validity-2-0"):
        assert f'<figure id="{name}">' in html
    assert "best-of-n-1.json" in html
    assert "CANARY" not in html
    assert "oracle share" in html


def test_a_page_without_a_run(downstream, tmp_path):
    report(downstream / "best", tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>What users get</h1>" in html
    assert 'id="scorers"' not in html
    assert 'id="benefit"' in html


def test_learning_curves(tmp_path):
    votes = tmp_path / "votes.jsonl"
    with votes.open("w", encoding="utf-8") as file:
        for k in range(240):
            texts = ["yes", "no, by no means, never"][:: 1 if k % 2 else -1]
            row = {"id": k, "user_id": f"u{k % 12}", "question": f"Which, {k // 12}?",
                   "chosen": texts[0], "rejected": texts[1],
                   "split": "adapt" if k // 12 % 3 else "test"}  # fmt: skip
            file.write(json.dumps(row) + "\n")
    train("user-heads", votes, tmp_path / "heads", embedders=["style"])
    adapt(tmp_path / "heads", votes, tmp_path / "users.safetensors")
    learning_curve(votes, tmp_path / "heads", shots=[0, 2, 4], fixed=8, root=tmp_path / "curves")
    report(tmp_path / "curves", tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<figure id="choices-1-accuracy">' in html
    assert '<figure id="choices-1-mirrored_accuracy">' in html
    assert str(tmp_path) not in html


def test_every_kind_of_result_has_a_part(tmp_path):
    save_uses(tmp_path / "runs")
    report(tmp_path / "runs", tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
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
