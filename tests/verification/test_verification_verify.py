"""verify_run: true runs pass, forged ones are refused by file and line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palate.benchmarks import LoadOptions, load_benchmark
from palate.data import load_rows
from palate.errors import SpecError
from palate.evaluation import evaluate, summarise
from palate.records import Outcome, Settings
from palate.runs import Run, VerdictRow, Verdicts, load
from palate.session import default_session
from palate.verification import DataOfRuns, Rescoring, verify_run

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def data() -> DataOfRuns:
    return DataOfRuns(None, LoadOptions())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    root = tmp_path_factory.mktemp("runs")
    return evaluate("tasting", "random", "profile:3", root=root)


@pytest.fixture
def copy(run: Run, tmp_path: Path) -> Path:
    assert run.folder is not None
    root = run.folder.parents[2]
    shutil.copytree(root, tmp_path / "runs")
    return tmp_path / "runs" / run.folder.relative_to(root)


def problems(folder: Path, data: DataOfRuns, rescoring: Rescoring | None = None) -> list[str]:
    checked = verify_run(folder, data, rescoring)
    assert checked is not None
    return checked.problems


def edit_line(path: Path, number: int, edit: Edit) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    row = json.loads(lines[number - 1])
    edit(row)
    lines[number - 1] = json.dumps(row, separators=(",", ":"), ensure_ascii=False)
    path.write_text("\n".join(lines), encoding="utf-8")


def edit_json(path: Path, edit: Edit) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    edit(document)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def lines_of(folder: Path, change: Callable[[list[str]], list[str]]) -> None:
    path = folder / "rows.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(change(lines)), encoding="utf-8")


def row(number: int, edit: Edit) -> Callable[[Path], object]:
    return lambda folder: edit_line(folder / "rows.jsonl", number, edit)


def summary(edit: Edit) -> Callable[[Path], object]:
    return lambda folder: edit_json(folder / "summary.json", edit)


def manifest(edit: Edit) -> Callable[[Path], object]:
    return lambda folder: edit_json(folder / "manifest.json", edit)


def flip(row: dict[str, Any]) -> None:
    row["outcome"] = {"chosen": "rejected", "rejected": "chosen"}[row["outcome"]]


def renamed(folder: Path) -> None:
    folder.rename(folder.with_name("profile-3-00000000"))


TAMPERING = {
    "a verdict": (row(7, flip), "rows.jsonl:7: ", "its numbers give"),
    "a verdict and its margin": (
        row(7, lambda r: (flip(r), r.update(margin=-r["margin"]))), "summary.json:", "rows give"),
    "a score": (row(7, lambda r: r.update(margin=r["margin"] * 1.01)), "rows.jsonl:7: ", "journal"),
    "a user": (row(7, lambda r: r.update(user="ann")), "rows.jsonl:7: ", "user 'ann'; the data"),
    "a couple": (row(7, lambda r: r.update(mirror_of=None)), "rows.jsonl:7: ", "mirror_of None"),
    "an unknown field": (row(7, lambda r: r.update(score=1)), "rows.jsonl:7: ", "no row (score"),
    "a row less": (lambda f: lines_of(f, lambda x: x[:6] + x[7:]), "rows.jsonl:7: ", "here"),
    "the last row less": (lambda f: lines_of(f, lambda x: x[:-1]), "rows.jsonl:96: ", "no row;"),
    "a row twice": (lambda f: lines_of(f, lambda x: x[:7] + x[6:]), "rows.jsonl:8: ", "line 7"),
    "two rows": (
        lambda f: lines_of(f, lambda x: [x[1], x[0], *x[2:]]), "rows.jsonl:1: ", "the data have"),
    "half a row": (
        lambda f: lines_of(f, lambda x: [*x[:-1], x[-1][:40]]), "rows.jsonl:96: ", "no row ("),
    "accuracy": (
        summary(lambda s: s["accuracy"].update(value=0.9)), "summary.json:13: ", '"value": 0.9'),
    "n": (summary(lambda s: s.update(n_pairs=97)), "summary.json:10: ", "96"),
    "an interval": (summary(lambda s: s["accuracy"].update(low=0.7)), "summary.json:14: ", '"low"'),
    "the scorer shown": (summary(lambda s: s.update(scorer="mine")), "summary.json:5: ", '"mine"'),
    "the schema": (summary(lambda s: s.update(schema=5)), "", "summary.json (schema 5"),
    "the scorer": (
        manifest(lambda m: m["identity"].update(scorer="longest")), "manifest.json: ", "is the"),
    "the hash of rows": (
        manifest(lambda m: m["identity"].update(rows="0" * 64)), "manifest.json: ", "is the"),
    "an older schema": (manifest(lambda m: m.update(schema=3)), "", "older version"),
    "a seed that is no number": (
        manifest(lambda m: m["identity"].update(seed="x")), "manifest.json: ", "identity (seed"),
    "a seed below 0": (
        manifest(lambda m: m["identity"].update(seed=-1)), "manifest.json: ", "identity (seed"),
    "a day that is none": (
        manifest(lambda m: m["identity"].update(since=7)), "manifest.json: ", "(since, until: "),
    "no benchmark": (
        manifest(lambda m: m["identity"].pop("benchmark")), "manifest.json: ", "(benchmark: field"),
    "the folder": (renamed, "manifest.json: ", "is the manifest of tasting/"),
    "no summary": (lambda f: (f / "summary.json").unlink(), "", "not finished"),
    "the journal": (
        lambda f: edit_line(f / "journal.jsonl", 3, lambda x: x.update(values=[0.5, 0.1])),
        "rows.jsonl:", "journal.jsonl holds other numbers"),
    "the journal's pass": (
        lambda f: edit_line(f / "journal.jsonl", 3, lambda x: x.update(in_pass="0")),
        "journal.jsonl:3: ", "of a pass"),
}  # fmt: skip


def test_a_true_run_passes_and_says_what_is_not_seen(copy: Path, data: DataOfRuns) -> None:
    checked = verify_run(copy, data)
    assert checked is not None
    assert (checked.problems, checked.rows) == ([], 96)
    assert checked.unseen[0].startswith("of summary.json oracle, models, parts_dropped")
    (copy / "journal.jsonl").unlink()
    checked = verify_run(copy, data)
    assert checked is not None
    assert (checked.problems, checked.unseen[0]) == ([], "the journal (there is none)")


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_is_refused_by_file_and_line(what: str, copy: Path, data: DataOfRuns) -> None:
    tamper, where, told = TAMPERING[what]
    tamper(copy)
    folder = copy if copy.is_dir() else next(copy.parent.iterdir())
    first, *_ = problems(folder, data)
    assert first.startswith(f"{folder}/{where}" if where else str(folder)), first
    assert told in first


def forged(folder: Path, share: int = 5) -> None:
    """Turn a fifth of the verdicts that are wrong or right, and all that follows from them."""
    run = load(folder)
    assert isinstance(run, Run)
    rows: list[VerdictRow] = list(run.verdicts.rows)
    turned = set(range(0, len(rows), share))
    rows = [
        each.model_copy(update={
            "margin": -(each.margin or 0.0),
            "outcome": Outcome({"chosen": "rejected", "rejected": "chosen"}[each.outcome]),
        }) if k in turned else each
        for k, each in enumerate(rows)
    ]  # fmt: skip
    verdicts = Verdicts([VerdictRow.model_validate(each.model_dump()) for each in rows])
    facts = run.summary.model_dump(include={
        "benchmark", "scorer", "context", "models", "shortfall_words", "notes", "split_texts",
        "leaks_dropped", "parts_dropped",
    })  # fmt: skip
    Run(summarise(verdicts, **facts), verdicts, folder).save()


def test_forged_rows_with_figures_to_match_are_found_where_rows_are_scored_afresh(
    copy: Path, data: DataOfRuns
) -> None:
    def afresh(seed: int) -> list[str]:
        settings = Settings(seed=seed)
        how = Rescoring(20, default_session(), settings, lambda label: lambda done, total: None)
        return problems(copy, data, how)

    assert afresh(0) == []
    forged(copy)
    assert problems(copy, data) == []
    refused = [afresh(seed) for seed in range(20)]
    assert sum(map(bool, refused)) >= 18
    first = next(each[0] for each in refused if each)
    assert first.startswith(f"{copy}/rows.jsonl:")
    assert "scored afresh" in first


@pytest.mark.parametrize("scorer", ["random", "longest"])
def test_baselines_are_scored_afresh_exactly(scorer: str, tmp_path: Path, data: DataOfRuns) -> None:
    folder = evaluate("tasting", scorer, "none", root=tmp_path).folder
    assert folder is not None
    how = Rescoring(96, default_session(), Settings(), lambda label: lambda done, total: None)
    assert problems(folder, data, how) == []


def test_data_are_those_that_are_named(tmp_path: Path, copy: Path) -> None:
    rows = [
        {"id": k, "user_id": f"u{k % 3}", "question": f"Which, {k}?", "chosen": "x" * (k + 1),
         "rejected": "y" * 5, "chosen_rating": 4, "rejected_rating": 1, "mine": "é"}
        for k in range(9)
    ]  # fmt: skip
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert len(load_rows(str(path)).rows) == 9
    pairs = load_benchmark(str(path), limit=7, seed=3)
    run = evaluate(pairs, "longest", root=tmp_path / "o", settings=Settings(seed=3))
    assert run.folder is not None
    named = DataOfRuns(str(path), LoadOptions())
    assert problems(run.folder, named) == []
    unnamed = verify_run(run.folder, DataOfRuns(None, LoadOptions()))
    assert unnamed is not None
    assert (unnamed.problems, unnamed.unseen[0]) == ([], "the data (-b)")
    (told,) = problems(copy, named)
    assert "judges 'tasting'; -b" in told
    path.write_text(path.read_text(encoding="utf-8").replace('"u1"', '"u9"'), encoding="utf-8")
    first, second, *_ = problems(run.folder, DataOfRuns(str(path), LoadOptions()))
    assert first.endswith("manifest.json: `rows` is no hash of the data's rows")
    assert "user 'u1'; the data have 'u9'" in second
    other = path.with_name("other.jsonl")
    text = path.read_text(encoding="utf-8").replace('"user_id"', '"who"')
    other.write_text(text.replace('"chosen"', '"chosen": "a", "best"'), encoding="utf-8")
    plain = load_benchmark(str(other), options=LoadOptions(columns={"user_id": "who"}))
    mapped = LoadOptions(columns={"user_id": "who", "chosen": "best"})
    both = DataOfRuns(str(other), LoadOptions())
    for pairs in (plain, load_benchmark(str(other), options=mapped)):
        folder = evaluate(pairs, "longest", root=tmp_path / "columns").folder
        assert folder is not None
        assert problems(folder, both) == []
    with pytest.raises(SpecError):
        DataOfRuns("nothing-of-this-name", LoadOptions())
