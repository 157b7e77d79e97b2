"""LaMP, LongLaMP and palate's rows: what each gives, and what each refuses in one line."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lamp_shaped import ASK, article, clean, headline, item, read, write

from palate import Dataset, construction, load_benchmark
from palate.construction.own_text_layouts import read_rows
from palate.errors import DataError, PalateError
from palate.runs import read_manifest

build_own_text = partial(construction.build_own_text, root=None)
OTHER_COLUMNS = {"chosen", "id", "profile", "question", "reference", "rejected", "rejected_by",
                 "split", "user_id"}  # fmt: skip


def test_a_row_holds_own_and_another_authors_text_and_adapt_rows_are_earlier(
    tmp_path: Path,
) -> None:
    rows = clean(users=3, articles=1)
    for row, day in zip(rows[:2], ("2015-05-01", "2015-04-01"), strict=True):
        row["profile"].append(item("shared", article(99), headline(row["id"], 99), day))
    build = build_own_text(write(tmp_path, rows), tmp_path / "pairs.jsonl", layout="lamp")
    pairs = read(tmp_path / "pairs.jsonl")
    test, adapt = [[p for p in pairs if p["split"] == split] for split in ("test", "adapt")]
    assert [(p["user_id"], p["chosen"], p["reference"]) for p in test] == [
        (f"u{k}", headline(k, 0), headline(k, 0)) for k in range(3)
    ]
    assert all(p["rejected"] in {headline(k, 0) for k in range(3)} - {p["chosen"]} for p in test)
    assert [post["text"] for post in test[2]["profile"]] == [headline(2, 10 + j) for j in range(4)]
    assert [
        (p["user_id"], p["question"], p["chosen"], p["rejected"], p["date"]) for p in adapt
    ] == [
        ("u0", ASK + article(99), headline("00", 99), headline("10", 99), "2015-05-01"),
        ("u1", ASK + article(99), headline("10", 99), headline("00", 99), "2015-04-01"),
    ]
    assert {*test[0]} == OTHER_COLUMNS | {"date"}
    assert build.rows == {
        "test": {"rows": 3, "users": 3, "inputs": 1, "against_authors": 3, "against_model": 0},
        "adapt": {"rows": 2, "users": 2, "inputs": 1, "against_authors": 2, "against_model": 0},
    }
    loaded = load_benchmark(str(tmp_path / "pairs.jsonl"))
    assert (len(loaded.pairs), len(loaded.history), loaded.bad_rows) == (3, 2, ())
    assert Dataset.from_rows("own", pairs).select("adapt").rows[0].id == adapt[0]["id"]


def test_the_latest_adapt_rows_stay_oldest_first(tmp_path: Path) -> None:
    rows = clean(users=2, articles=1, items=1)
    for row in rows:
        row["profile"] += [
            item(f"s{k}", article(90 + k), headline(row["id"], 90 + k), f"2015-0{9 - k}-01")
            for k in range(4)
        ]
    how: dict[str, Any] = {"layout": "lamp", "adapt": 2}
    build = build_own_text(write(tmp_path, rows), tmp_path / "p.jsonl", **how)
    dates = [(r["user_id"], r["date"]) for r in read(tmp_path / "p.jsonl") if r["split"] == "adapt"]
    assert dates == [(f"u{u}", f"2015-0{month}-01") for u in range(2) for month in (8, 9)]
    assert build.dropped["adapt rows"]["beyond --adapt"] == 4


def test_gzip_and_a_folder_apart_give_the_same_rows(tmp_path: Path) -> None:
    folder = write(tmp_path / "lamp", clean())
    build_own_text(folder, tmp_path / "plain.jsonl", layout="lamp")
    packed = tmp_path / "train_questions.json.gz"
    packed.write_bytes(gzip.compress((folder / "dev_questions.json").read_bytes()))
    build = build_own_text(
        packed, tmp_path / "packed.jsonl.gz", layout="lamp", outputs=folder / "dev_outputs.json",
        root=tmp_path / "runs",
    )  # fmt: skip
    unpacked = gzip.decompress((tmp_path / "packed.jsonl.gz").read_bytes())
    assert unpacked == (tmp_path / "plain.jsonl").read_bytes()
    assert build.folder is not None
    assert {*read_manifest(build.folder).inputs} == {"train_questions.json.gz", "dev_outputs.json"}


@pytest.mark.parametrize(
    ("task", "item_of", "adapt"),
    [
        ("LaMP_4", lambda text: {"title": text, "text": "What it is about."}, 2),
        ("LaMP_5", lambda text: {"title": text, "abstract": "What it is about."}, 2),
        ("LaMP_6_time", lambda text: {"title": text, "text": "What it is about."}, 2),
        ("LaMP_7", lambda text: {"text": text}, 0),
    ],
)
def test_each_task_has_its_field_of_the_users_text(
    tmp_path: Path, task: str, item_of: Any, adapt: int
) -> None:
    rows = clean(users=2, articles=1)
    for row in rows:
        row["profile"] = [{"id": f"{row['id']}p", **item_of(f"The text that {row['id']} wrote")}]
    build = build_own_text(write(tmp_path, rows, task), tmp_path / "p.jsonl", layout="lamp")
    pairs = read(tmp_path / "p.jsonl")
    assert pairs[0]["profile"] == [{"id": "00p", "text": "The text that 00 wrote"}]
    assert build.rows["adapt"]["rows"] == adapt, "of LaMP-7 the input is not known"


LONGLAMP: dict[str, Any] = {
    "reviewerId": (
        'Generate the review text for a product with description "{0}". The summary is "fine".',
        lambda k, text: {"description": f"Product {k} of the shop", "overall": "5.0",
                         "reviewText": text, "summary": "good"},
        "Review this product.\nProduct 7 of the shop\nSummary: good\nOverall: 5.0",
    ),
    "name": (
        'Generate an abstract for the title "{0}" using the following items: a, b',
        lambda k, text: {"id": f"i{k}", "title": f"Product {k} of the shop", "abstract": text,
                         "year": 2010 + k},
        "Write the abstract of this paper.\nProduct 7 of the shop",
    ),
    "author": (
        'Generate the content for a reddit post "{0}".',
        lambda k, text: {"id": f"i{k}", "author": "x", "content": text,
                         "summary": f"Product {k} of the shop"},
        "Write the post that this sums up.\nProduct 7 of the shop",
    ),
}  # fmt: skip


def longlamp(named_by: str) -> list[dict[str, Any]]:
    prompt, fields, _ = LONGLAMP[named_by]
    return [
        {
            named_by: f"u{user}", "input": prompt.format("What stands on both desks"),
            "output": " ".join(f"o{user}w{j}" for j in range(20)),
            "profile": [fields(k, " ".join(f"p{user}k{k}w{j}" for j in range(20))) for k in (6, 7)],
        }
        for user in range(3)
    ]  # fmt: skip


@pytest.mark.parametrize("named_by", LONGLAMP)
@pytest.mark.parametrize("ending", [".json", ".jsonl", ".parquet"])
def test_longlamp_is_read_by_the_column_that_names_the_user(
    tmp_path: Path, named_by: str, ending: str
) -> None:
    path, rows = tmp_path / f"test-00000-of-00001{ending}", longlamp(named_by)
    if ending == ".parquet":
        pa = pytest.importorskip("pyarrow")
        __import__("pyarrow.parquet").parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        lines = "\n".join(map(json.dumps, rows))
        path.write_text(lines if ending == ".jsonl" else json.dumps(rows))
    build = build_own_text(tmp_path, tmp_path / "out" / "p.jsonl", layout="longlamp")
    pairs = read(tmp_path / "out" / "p.jsonl")
    assert build.rows["test"]["rows"] == 3
    assert build.rows["adapt"]["rows"] == 6
    assert pairs[4]["question"] == LONGLAMP[named_by][2]
    assert pairs[4]["chosen"].startswith("p0k7w0")
    assert pairs[0]["id"] == "test-00000-of-00001-1"


def test_palates_own_rows_keep_their_adapt_split(tmp_path: Path) -> None:
    rows = [
        {"id": f"{user}{k}", "user_id": f"u{user}", "question": f"What of the {k}th matter?",
         "chosen": f"Answer {user} to matter {k} is {'very ' * user}plain.", "rejected": "No.",
         "split": "adapt" if k else "test", "category": "matters",
         **({} if k else {"profile": [{"id": "p", "text": f"Something else by user {user}."},
                                      {"id": "q", "text": f"An old text by {user}",
                                       "question": "What was long ago?"}]})}
        for user in range(2) for k in range(2)
    ]  # fmt: skip
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    build_own_text(path, tmp_path / "p.jsonl", layout="rows")
    pairs = read(tmp_path / "p.jsonl")
    assert [(p["user_id"], p["split"]) for p in pairs] == [
        ("u0", "test"), ("u1", "test"), *[("u0", "adapt")] * 2, *[("u1", "adapt")] * 2,
    ]  # fmt: skip
    asked = {"What was long ago?", "What of the 1th matter?"}
    assert {p["question"] for p in pairs[2:4]} == {p["question"] for p in pairs[4:]} == asked
    assert pairs[0]["category"] == "matters"
    assert pairs[0]["rejected"] == rows[2]["chosen"]


def drop(key: str, where: int = 0) -> Any:
    return lambda rows: rows[where].pop(key)


BAD: dict[str, tuple[Any, str]] = {
    "no output": (drop("output"), "dev_questions.json:1: `id`: the question '00' has no output in"),
    "no question": (drop("input"), "dev_outputs.json: `id`: the output '00' has no question"),
    "empty output": (lambda rows: rows[1].update(output=" "), "has an empty output in"),
    "no profile": (lambda rows: rows[1].update(profile=[]), "the user has no earlier text"),
    "no texts": (
        lambda rows: [post.update(title="") for post in rows[1]["profile"]],
        "the user 'u0' of '01' has no earlier text",
    ),
    "the same id": (lambda rows: rows[1].update(id="00"), "outputs.json:2: `id`: '00' is there"),
    "a number as profile": (lambda rows: rows[0].update(profile=3), "expected a list of objects"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_row_is_one_line_and_is_left_out_where_that_is_asked_for(
    tmp_path: Path, what: str
) -> None:
    spoil, says = BAD[what]
    rows = clean()
    spoil(rows)
    folder, output = write(tmp_path, rows), tmp_path / "p.jsonl"
    with pytest.raises(PalateError) as problem:
        build_own_text(folder, output, layout="lamp")
    assert says in str(problem.value)
    assert "\n" not in str(problem.value)
    assert problem.value.exit_code == 2
    assert not output.exists()
    if what != "the same id":
        build = build_own_text(folder, output, layout="lamp", skip_bad_rows=True)
        assert build.rows["test"]["rows"] == 7
        assert sum(build.dropped["source rows"].values()) == 1


@pytest.mark.parametrize("task", ["LaMP_1", "LaMP_2", "LaMP_3"])
def test_label_tasks_are_refused(tmp_path: Path, task: str) -> None:
    folder = write(tmp_path, clean(), task)
    with pytest.raises(PalateError, match=f"{task} asks for a label, so it holds no text"):
        build_own_text(folder, tmp_path / "p.jsonl", layout="lamp")


def test_other_mistakes_are_one_line_too(tmp_path: Path) -> None:
    folder = write(tmp_path / "lamp", clean())

    def refused(match: str, source: Path = folder, output: str = "p.jsonl", **how: Any) -> None:
        with pytest.raises(PalateError, match=match) as problem:
            build_own_text(source, tmp_path / output, **{"layout": "lamp", **how})
        assert "\n" not in str(problem.value)
        assert problem.value.exit_code == 2

    refused("--layout lam: expected one of", layout="lam")
    refused("ends in .jsonl or .jsonl.gz", output="p.json")
    refused("--adapt -1: expected 0 or more", adapt=-1)
    refused("only --layout lamp has outputs", layout="rows", outputs=folder)
    refused("no such file or folder", tmp_path / "nowhere")
    refused("expected one .*_questions.json, there are: none", tmp_path)
    refused("several data sets", folder, layout="longlamp")
    refused("user in reviewerId, name or author", folder / "dev_questions.json", layout="longlamp")
    refused("no such", rejected="./nowhere")
    refused("leaves no test row \\(2 test rows: no other author", write(tmp_path / "one", clean(1)))
    refused("expected LaMP_4 to LaMP_7, got 'x'", write(tmp_path / "x", clean(), "x"))
    (folder / "dev_questions.json").write_text('[{"id": "1", ')
    refused("dev_questions.json:1: cut short", folder)
    (folder / "dev_questions.json").write_text("{}")
    refused("holds no question; expected a JSON list", folder)
    (folder / "dev_outputs.json").unlink()
    refused("name them with --outputs FILE", folder)


def test_real_answers_of_several_authors(real_data: Path, tmp_path: Path) -> None:
    path, output = real_data / "stackexchange_author.jsonl.gz", tmp_path / "own.jsonl.gz"
    build = build_own_text(path, output, layout="rows")
    loaded = load_benchmark(str(output))
    assert loaded.bad_rows == ()
    assert len(loaded.pairs) == build.rows["test"]["rows"] > 200
    # The file has up to two rows for each of 461 answers, on 257 questions; several users answered
    # 150 of these. One question shares a run of words with a post.
    assert build.dropped["profile items"] == {"shares the reference": 13, "same input": 1}
    assert build.dropped["test rows"]["repeated"] == 673 - 461
    assert build.rows["test"]["inputs"] == 150
    again = build_own_text(path, tmp_path / "again.jsonl.gz", layout="rows")
    assert again.summary.rows_hash == build.summary.rows_hash


def test_a_row_with_earlier_turns_is_refused_by_name(tmp_path: Path) -> None:
    row = {"id": "1", "question": "Which?", "chosen": "Assam.", "rejected": "Mint.",
           "turns": [{"role": "user", "content": "Tea?"}]}  # fmt: skip
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{json.dumps(row)}\n", encoding="utf-8")
    (error,) = read_rows([path])
    assert isinstance(error, DataError) and (error.line, error.field) == (1, "turns")
    assert "questions of one turn" in error.problem
