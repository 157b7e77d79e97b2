from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.benchmarks import Dataset, LoadOptions, find_benchmark, list_benchmarks, load_benchmark
from palate.benchmarks.registry import file_benchmark, is_path
from palate.errors import BenchmarkError, DataError, PalateError, SpecError, UsageError
from palate.records import PreferencePair


def pair(name: str, **fields: Any) -> PreferencePair:
    base = {"user_id": f"u-{name}", "text": "Tea?", "chosen": "Yes.", "rejected": "No."}
    return PreferencePair(id=name, **{**base, **fields})


def couple(k: int, **fields: Any) -> tuple[PreferencePair, PreferencePair]:
    return (
        pair(f"a{k}", mirror_of=f"b{k}", **fields),
        pair(f"b{k}", mirror_of=f"a{k}", chosen="No.", rejected="Yes.", **fields),
    )


def ids(pairs: Dataset) -> list[str]:
    return [one.id for one in pairs.pairs]


def test_where_rows_have_a_split_test_is_read() -> None:
    made = Dataset("m", (pair("1", split="adapt"), pair("2", split="test"), pair("3")))
    assert ids(made.select()) == ["2"]
    assert ids(made.select("adapt")) == ["1"]
    assert ids(made.select("all")) == ["1", "2", "3"]
    assert (made.select().split, made.select("all").split) == ("test", "all")


def test_where_no_row_has_a_split_all_are_read() -> None:
    made = Dataset("m", (pair("1"), pair("2")))
    assert ids(made.select()) == ids(made.select("all")) == ["1", "2"]
    with pytest.raises(BenchmarkError, match=r"m has no split 'test' .*the rows have no split"):
        made.select("test")


def test_an_unknown_split_names_those_there_are() -> None:
    made = Dataset("m", (pair("1", split="test"), pair("2", split="adapt")))
    with pytest.raises(BenchmarkError, match=r"m has no split 'dev' \(splits: adapt, test; all"):
        made.select("dev")


def test_ties_are_counted_and_left_out() -> None:
    made = Dataset("m", (pair("1", tie=True), pair("2"), pair("3", tie=True, split="test")))
    assert ids(made.select("all")) == ["2"]
    assert made.select("all").ties == 2
    with pytest.raises(BenchmarkError, match="split 'test': no decided pair"):
        made.select()


def test_a_couple_names_each_other_both_ways() -> None:
    one, other = couple(0)
    third = pair("c", mirror_of="a0", chosen="No.", rejected="Yes.")
    assert Dataset("m", (third, other, one)).couples == ((1, 2),)


@pytest.mark.parametrize(
    "slip",
    [{"mirror_of": None}, {"mirror_of": "gone"}, {"mirror_of": "b0"}, {"user_id": "u-a0"},
     {"text": "Coffee?"}, {"chosen": "Nay."}, {"rejected": "Yea."},
     {"chosen": "Yes.", "rejected": "No."}],
)  # fmt: skip
def test_what_breaks_the_mirror_law_is_no_couple(slip: dict[str, Any]) -> None:
    one, other = couple(0)
    made = Dataset("m", (one, other.model_copy(update=slip)))
    assert made.couples == ()
    assert not made.select().mirrored


def test_a_set_is_mirrored_where_every_pair_has_its_mirror() -> None:
    whole = Dataset("m", (*couple(0), *couple(1)))
    assert whole.select().mirrored
    assert not Dataset("m", (*couple(0), pair("x"))).select().mirrored
    # A couple that loses one half to a tie leaves the other behind.
    one, other = couple(2)
    assert not Dataset("m", (one, other.model_copy(update={"tie": True}))).select().mirrored


@given(st.integers(1, 12), st.integers(0, 5))
def test_a_limit_draws_rows_in_the_order_of_the_file(n: int, seed: int) -> None:
    made = Dataset("m", tuple(pair(f"{k:02}") for k in range(10)))
    drawn = ids(made.limit(n, seed))
    assert len(drawn) == min(n, 10)
    assert drawn == sorted(drawn)
    assert drawn == ids(made.limit(n, seed))
    assert set(drawn) <= set(ids(made.limit(n + 1, seed)))


def test_a_limit_is_a_fair_draw() -> None:
    made = Dataset("m", tuple(pair(str(k)) for k in range(5)))
    counts = dict.fromkeys("01234", 0)
    for seed in range(1000):
        counts[ids(made.limit(1, seed))[0]] += 1
    assert all(abs(count - 200) < 60 for count in counts.values())


@given(st.integers(1, 7), st.integers(0, 5))
def test_on_mirrors_a_limit_counts_couples(n: int, seed: int) -> None:
    made = Dataset("m", tuple(one for k in range(6) for one in couple(k))).select()
    cut = made.limit(n, seed)
    assert len(cut.couples) == min(n, 6)
    assert len(cut.pairs) == 2 * min(n, 6)
    assert cut.mirrored


def test_no_limit_is_no_limit() -> None:
    made = Dataset("m", tuple(pair(str(k)) for k in range(5)))
    assert made.limit(None) is made
    assert made.limit(5) is made


@pytest.mark.parametrize(
    ("name", "path"),
    [("tasting", False), ("wine.jsonl", True), ("wine.jsonl.gz", True), ("wine.parquet", True),
     ("wine.json", True), ("Wine.CSV", True), ("wine.tsv.zst", True), ("wine.xlsx", False),
     ("./wine", True), ("a/b", True), ("tasting?subset=x", False)],
)  # fmt: skip
def test_names_and_paths_are_told_apart(name: str, path: bool) -> None:
    assert is_path(name) == path


@pytest.mark.parametrize(
    "ending", [".jsonl", ".jsonl.gz", ".parquet", ".ndjson", ".json.zst", ".csv", ".TSV.gz", ""]
)
def test_a_file_is_a_benchmark_named_after_it(ending: str) -> None:
    assert file_benchmark(f"data/red.wine{ending}").name == "red.wine"


def test_a_file_is_loaded_under_the_row_contract(tmp_path: Path) -> None:
    rows = [{"id": k, "question": "Tea?", "chosen": f"Yes {k}.", "rejected": "No.", "hat": k}
            for k in range(4)]  # fmt: skip
    rows[2]["chosen"] = ""
    path = tmp_path / "wine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match=r"wine\.jsonl:3: `chosen`"):
        load_benchmark(str(path))
    made = load_benchmark(str(path), options=LoadOptions(skip_bad_rows=True), limit=2)
    assert (made.name, len(made.pairs), len(made.bad_rows)) == ("wine", 2, 1)
    assert made.unknown_columns == ("hat",)
    mapped = LoadOptions(columns={"chosen": "rejected", "rejected": "chosen"}, skip_bad_rows=True)
    assert load_benchmark(str(path), options=mapped).pairs[0].chosen == "No."
    for options in (LoadOptions(revision="main"), LoadOptions(source=tmp_path)):
        with pytest.raises(BenchmarkError, match="takes no --source or --revision"):
            load_benchmark(str(path), options=options)


def test_a_folder_is_a_benchmark_named_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "wine.v2"
    folder.mkdir()
    (folder / "votes.csv").write_text("id,question,chosen,rejected\n1,Tea?,Yes.,No.\n")
    monkeypatch.chdir(folder)
    for name in (str(folder), f"{folder}/", "./", "../wine.v2"):
        made = load_benchmark(name)
        assert (made.name, made.subsets) == ("wine.v2", ("wine.v2",))
    (folder / "votes.xlsx").touch()
    with pytest.raises(DataError, match=r"votes\.xlsx: unknown format; expected \.jsonl, "):
        load_benchmark("votes.xlsx")
    whole = load_benchmark("votes.csv")
    assert (whole.name, whole.rows[0].id, whole.pairs[0].chosen) == ("votes", "1", "Yes.")


def test_every_benchmark_declares_itself() -> None:
    names = {benchmark.name for benchmark in list_benchmarks()}
    assert {"tasting", "personalized-rewardbench"} <= names
    for benchmark in list_benchmarks():
        assert find_benchmark(benchmark.name) is benchmark
        assert benchmark.licence != "unknown"
        assert benchmark.description


def test_one_subset_can_be_named() -> None:
    made = load_benchmark("tasting?subset=Society_and_Culture")
    assert made.subsets == ("Society_and_Culture",)
    assert (made.name, made.mirrored) == ("tasting?subset=Society_and_Culture", True)
    with pytest.raises(BenchmarkError, match=r"tasting has no subset 'Wine'.*Art_and"):
        load_benchmark("tasting?subset=Wine")


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [("tastin", {}, SpecError), ("tasting:x", {}, SpecError), ("tasting?split=x", {}, SpecError),
     ("tasting", {"limit": 0}, UsageError), ("tasting", {"mirrored": "all"}, UsageError),
     ("tasting", {"options": LoadOptions(revision="main")}, BenchmarkError),
     ("tasting", {"options": LoadOptions(columns={"chosen": "x"})}, BenchmarkError),
     ("./none.jsonl", {}, DataError)],
)  # fmt: skip
def test_what_cannot_be_loaded_is_refused(
    name: str, options: dict[str, Any], kind: type[PalateError]
) -> None:
    with pytest.raises(kind) as caught:
        load_benchmark(name, **options)
    assert "\n" not in str(caught.value)
