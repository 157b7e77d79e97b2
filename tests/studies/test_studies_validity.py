"""The study of validity: nothing learnt from is asked, and its tables hold what was found."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from palate.benchmarks import load_benchmark
from palate.runs import SCHEMA
from palate.scorers import build_scorer
from palate.session import default_session
from palate.validity import Validity, ValiditySummary
from studies.validity import rows, small_n, study, tables

FOLDER = Path(__file__).resolve().parents[2] / "studies" / "validity"


def words(text: str) -> int:
    return len(text.split())


def test_what_is_learnt_from_holds_no_question_and_no_answer_of_the_study(real_data, tmp_path):
    rows.write_rows(real_data, tmp_path)
    couples = load_benchmark(str(tmp_path / "author-couples.jsonl"))
    whole = load_benchmark(str(tmp_path / "author.jsonl"))
    assert couples.mirrored
    questions = {pair.text for pair in couples.pairs}
    assert 25 <= len(questions) <= rows.COUPLES
    assert len(couples.pairs) == 2 * len(questions)
    for pair in whole.pairs:
        assert max(map(words, (pair.chosen, pair.rejected))) <= rows.ANSWER_WORDS
        assert words(pair.text) <= rows.QUESTION_WORDS
        assert 0 < max(words(post.text) for post in pair.profile) <= rows.POST_WORDS
    assert {pair.id for pair in couples.pairs} < {pair.id for pair in whole.pairs}
    asked = {pair.text for pair in whole.pairs}
    answers = {text for pair in whole.pairs for text in (pair.chosen, pair.rejected)}
    files = sorted(tmp_path.glob("train-*.jsonl"))
    assert len(files) == 8
    for file in files:
        learnt = load_benchmark(str(file), split="all").pairs
        assert len(learnt) > 150
        assert not asked & {pair.text for pair in learnt}
        assert not answers & {text for pair in learnt for text in (pair.chosen, pair.rejected)}
        if file.stem.endswith("-reversed"):
            right = load_benchmark(str(file.with_name(f"{file.stem[:-9]}.jsonl")), split="all")
            assert [(p.chosen, p.rejected) for p in learnt] == [
                (p.rejected, p.chosen) for p in right.pairs
            ]
    first = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    rows.write_rows(real_data, tmp_path)
    assert first == {file.name: file.read_bytes() for file in tmp_path.iterdir()}


def test_every_scorer_of_the_study_is_one_that_palate_knows():
    for spec in (*study.BLIND, *study.READERS):
        if not spec.startswith(("personal:", "classifier:")):  # these are trained on the way
            build_scorer(spec, default_session())
    assert len({*study.BLIND, *study.READERS}) >= 15


def test_tables_and_picture_hold_what_validity_found(tmp_path, capsys, monkeypatch):
    span = {"low": 0.1, "high": 0.9}
    tau = {"statistic": "kendall", "value": 0.5, "n": 3, "interval": span,
           "chance": {"p": 0.2}, "first": 0.5, "second": 0.75, "p": 0.4}  # fmt: skip
    difference = {**tau, "value": -0.25}
    people = [("longest", "none", 0.6, 0.3), ("random", "none", 0.5, 0.2),
              ("personal:heads/minilm-author?state=prior", "profile:2", 0.4, 0.7)]  # fmt: skip
    for name, measures in tables.MAIN.items():
        of = {"quality": measures[0], "k": 8, "n_samples": 16}
        entry = {
            "benchmark": name, "metric": "accuracy", "downstream": of, "agreements": [tau],
            "p_holm": [0.6],
            "reliability": {"value": 0.64, "low": 0.2, "high": 0.8}, "noise_ceiling": None,
            "downstream_reliability": None,
            "scorers": [
                {"scorer": s, "context": c, "metric_value": x, "downstream_value": y}
                for s, c, x, y in people
            ],
        }  # fmt: skip
        differ = {
            "first": [name, "accuracy"], "second": [name, "gain"], "downstream": of,
            "n": 3, "tau": difference, "p_holm": 0.9,
        }  # fmt: skip
        said = {"coefficients": [entry], "differences": [differ]}
        (tmp_path / f"{name}-validity.json").write_text(json.dumps(said))
    monkeypatch.setattr(sys, "argv", ["tables.py", str(tmp_path), str(tmp_path / "p.png")])
    tables.main()
    printed = capsys.readouterr().out
    assert "| accuracy | tasting | coverage | 3 | 0.500 [0.100, 0.900] |" in printed
    assert "| 0.200 / 0.600 | 0.640 [0.200, 0.800] | – | – |" in printed
    assert "| 0.500 | 0.750 | −0.250 | 0.400 / 0.900 |" in printed
    assert "| head minilm-author | profile:2 | 0.400 | 0.700 |" in printed
    assert "| coverage | accuracy of tasting | gain of tasting | 3 |" in printed
    assert printed.index("head minilm-author") < printed.index("| longest |")
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"


def test_the_tables_that_are_kept_are_those_of_the_documents_that_are(
    tmp_path, capsys, monkeypatch
):
    for file in FOLDER.glob("*-validity.json"):
        document = json.loads(file.read_text(encoding="utf-8"))
        kind, schema = document.pop("kind"), document.pop("schema")
        summary = ValiditySummary.model_validate(document)
        assert (kind, schema) == (Validity.kind, SCHEMA)
        assert summary.model_dump(mode="json") == document
    monkeypatch.setattr(sys, "argv", ["tables.py", str(FOLDER), str(tmp_path / "p.png")])
    tables.main()
    assert capsys.readouterr().out == (FOLDER / "tables.md").read_text(encoding="utf-8")


def test_six_scorers_show_what_enumeration_says(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(small_n, "SIZES", (6,))
    monkeypatch.setattr(sys, "argv", ["small_n.py", str(tmp_path / "n.png")])
    small_n.main()
    printed = capsys.readouterr().out
    assert "| Spearman ρ, best of n | 0.2571 | p = 0.66, two-sided |" in printed
    assert "| Spearman ρ, PPO | 0.3714 | p = 0.50, two-sided |" in printed
    assert "mean 0.804; reached in 15%" in printed
    assert (tmp_path / "n.png").read_bytes()[:4] == b"\x89PNG"
