"""A result of every kind that has a section on the page, in one folder."""

from __future__ import annotations

import json
from pathlib import Path

from planted_results import estimate, save_uses

from palate import best_of_n, evaluate, learning_curve, train, validity
from palate.benchmarks import load_benchmark
from palate.construction import (
    OwnTextBuild,
    OwnTextSummary,
    PairsBuild,
    PairsSummary,
    StageCounts,
    audit,
)
from palate.quality import QualityScore
from palate.runs import Manifest
from palate.study import agreement
from palate.uses.forecast import forecast
from study.planted_answers import panel_of

SCORERS = ("longest", "shortest", "random")


class Words:
    """As many words, as much quality."""

    spec, fingerprint, needs, surrogate, details = "words:./CANARY/w", "w", (), False, {}

    def check(self, pairs):
        pass

    def rate(self, items):
        for k, item in enumerate(items):
            yield k, QualityScore(value=min(len(item.response.split()) / 10, 1.0))


def save_best_of_n(root: Path) -> None:
    questions = load_benchmark("tasting", limit=12)
    answers = root / "answers.jsonl"
    with answers.open("w", encoding="utf-8") as file:
        for k, row in enumerate(questions.rows):
            own = [f"An answer of {'some ' * (k // 2 % 3 + n)}words." for n in range(4)]
            file.write(json.dumps({"id": row.id, "samples": own}) + "\n")
    best_of_n(questions, answers, SCORERS, qualities=[Words()], root=root / "best")


def save_validity(root: Path) -> None:
    """Compare runs, and what they forecast, with the picks that `save_best_of_n` left here."""
    questions = load_benchmark("tasting", limit=12)
    evaluate(questions, SCORERS, "none", root=root / "runs")
    forecast(root / "runs" / "tasting", questions, root / "answers.jsonl", root=root / "forecasts")
    validity(root, metrics=["mirrored accuracy"], root=root)


def save_learning_curve(root: Path) -> None:
    votes = root / "votes.jsonl"
    with votes.open("w", encoding="utf-8") as file:
        for k in range(240):
            texts = ["yes", "no, by no means, never"][:: 1 if k % 2 else -1]
            row = {"id": k, "user_id": f"u{k % 12}", "question": f"Which, {k // 12}?",
                   "chosen": texts[0], "rejected": texts[1],
                   "split": "adapt" if k // 12 % 3 else "test"}  # fmt: skip
            file.write(json.dumps(row) + "\n")
    train("user-heads", votes, root / "heads", embedders=["style"])
    learning_curve(votes, root / "heads", shots=[0, 2, 4], fixed=8, root=root / "curves")


def save_own_text(root: Path) -> None:
    counts = {"rows": 8, "users": 4, "inputs": 4, "against_others": 8, "against_model": 0}
    stage = StageCounts(
        stage="leaks", of="test rows", n_read=11, n_kept=8, dropped={"in the profile": 3}
    )
    summary = OwnTextSummary(
        benchmark="posts", layout="rows", policy=None, rows={"adapt": counts, "test": counts},
        stages=(stage,), undated_profile_items=2, blind_scorers={"longest": estimate(0.6)},
        rows_hash="0" * 64,
    )  # fmt: skip
    manifest = Manifest.of("own-text", {"benchmark": "posts", "name": "rows"})
    OwnTextBuild(summary, manifest.renew(root / "built")).save_with(iter(()))


def save_pairs(root: Path) -> None:
    stage = StageCounts(
        stage="answers", of="couples", n_read=9, n_kept=4, dropped={"writer: words": 5}
    )
    summary = PairsSummary(
        benchmark="built", layout="posts", rejected="mirror", reader="pypi:reader",
        writers={"./CANARY/writer": 4}, pairs=8, couples=4, users=6, questions=4,
        askers=6, never_asked=1,
        stages=(stage,), audit=audit("tasting", root=None).summary, without_user=(),
        dataset_hash="0" * 64,
    )  # fmt: skip
    manifest = Manifest.of("pairs", {"benchmark": "built", "name": "posts"})
    PairsBuild(summary, (), manifest.renew(root / "pairs")).save()


def save_agreement(root: Path) -> None:
    answers = root / "people.jsonl"
    rows = [row.model_dump_json() for row in panel_of(4, 12, 0)]
    answers.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    agreement(answers, root=root / "agreement")


def save_every_kind(root: Path) -> None:
    save_uses(root / "uses")
    save_best_of_n(root)
    save_validity(root)
    save_learning_curve(root)
    save_own_text(root)
    save_pairs(root)
    save_agreement(root)
    few = load_benchmark("tasting", limit=12)
    audit(few, blind="longest", apart=0, scorers=["longest"], root=root / "audited")
