"""palate evaluate --by and --target rating, as a person uses them."""

import json
from pathlib import Path

import pytest

from command_line import palate, write_rows

GROUPS = {
    "benchmark", "scorer", "context", "oracle", "by", "groups", "n_unlabelled", "largest_gap",
    "worst_decile", "users_harmed", "note",
}  # fmt: skip
GROUP = {"name", "accuracy", "n_pairs", "n_users", "under_10_users", "worst_decile"}
GAP = {"a", "b", "value", "low", "high", "n", "n_users", "p", "p_holm", "n_tested", "note"}
LOSING = {"value", "low", "high", "n", "note"}
RATINGS = {
    "benchmark", "scorer", "context", "oracle", "n_ratings", "n_users", "n_unrated", "n_undecided",
    "n_unscored",
    "n_users_too_few", "n_users_single", "scale",
    "spearman", "kendall", "rating_error", "baselines", "note",
}  # fmt: skip
BASELINE = {"name", "rating_error", "error_reduction", "p", "p_holm"}


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    """24 users of two ages; the longer response is rated higher, mostly."""
    rows = []
    for k in range(144):
        user, texts = k % 24, ["x" * (k % 7 + 1), "y" * (k % 5 + 9)]
        rows.append({
            "id": k, "user_id": f"u{user}", "question": f"Which, {k}?",
            **dict(zip(("rejected", "chosen"), texts[:: 1 if k % 5 else -1], strict=True)),
            "traits": {"age": "old" if user % 2 else "young"}, "category": "tea | wine",
            "profile": [{"id": "p", "text": f"I wrote this, {user}."}],
            "chosen_rating": 3 + k % 3, "rejected_rating": 1 + k % 4, "rating_scale": [1, 5],
        })  # fmt: skip
    return write_rows(tmp_path / "mine.jsonl", rows)


def test_by_prints_groups_gaps_and_who_loses(rated: Path, tmp_path: Path) -> None:
    done = palate(
        "evaluate", "-b", str(rated), "-s", "longest", "-c", "none", "-c", "profile:1",
        "--by", "trait:age", "--by", "category", "--format", "markdown", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "**mine: accuracy by trait:age**" in done.stdout
    assert (
        "| scorer | context | age | accuracy [95 %] | pairs | users | worst tenth |" in done.stdout
    )
    assert "| longest | none | old |" in done.stdout
    assert "harmed: share of users whose accuracy is" in done.stdout
    assert "| tea \\| wine |" in done.stdout
    assert "There is no gap: fewer than two subgroups have 10 users or more." in done.stdout
    assert "p is Holm-corrected over all such gaps of a run (1)." in done.stdout


WORDS = ("-s", "longest", "-c", "none", "-c", "profile:1", "--format", "json")


@pytest.fixture
def plain(rated: Path, tmp_path: Path) -> dict[str, list[object]]:
    """The document of a call that asks for no lists."""
    done = palate("evaluate", "-b", str(rated), *WORDS, cwd=tmp_path)
    document: dict[str, list[object]] = json.loads(done.stdout)
    return document


def test_the_document_has_the_lists_that_were_asked_for(
    rated: Path, tmp_path: Path, plain: dict[str, list[object]]
) -> None:
    lists = ("--by", "trait:age", "--target", "rating")
    document = json.loads(palate("evaluate", "-b", str(rated), *WORDS, *lists, cwd=tmp_path).stdout)
    assert [set(view) for view in document["groups"]] == [GROUPS] * 2
    view = document["groups"][1]
    assert {name for group in view["groups"] for name in group} == GROUP
    assert set(view["largest_gap"]) == GAP
    assert set(view["users_harmed"]) == LOSING
    assert [set(one) for one in document["ratings"]] == [RATINGS] * 2
    assert {name for b in document["ratings"][0]["baselines"] for name in b} == BASELINE
    assert plain["groups"] == plain["ratings"] == []


def mark_ties(path: Path) -> None:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    marked = [row | {"tie": k % 4 == 0} for k, row in enumerate(rows)]
    path.write_text("\n".join(map(json.dumps, marked)) + "\n", encoding="utf-8")


def test_a_plan_counts_undecided_rows(rated: Path, tmp_path: Path) -> None:
    mark_ties(rated)
    call = ("evaluate", "-b", str(rated), "-s", "longest", "-c", "none")
    planned = palate(*call, "--target", "rating", "--dry-run", cwd=tmp_path)
    assert "mine  longest  none  108 rows + 36 undecided" in planned.stdout


def test_target_rating_reads_undecided_rows(rated: Path, tmp_path: Path) -> None:
    mark_ties(rated)
    call = ("evaluate", "-b", str(rated), "-s", "longest", "-c", "none")
    target = ("--target", "rating", "--format", "json")
    document = json.loads(palate(*call, *target, cwd=tmp_path).stdout)
    assert document["runs"][0]["undecided_rows"] == 36
    (report,) = document["ratings"]
    assert (report["n_ratings"], report["n_undecided"]) == (288, 0)


def test_target_rating_prints_one_table_more(rated: Path, tmp_path: Path) -> None:
    done = palate(
        "evaluate", "-b", str(rated), "-s", "longest", "-s", "random", "--target", "rating",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "mine: 288 ratings of 24 users" in done.stdout
    assert "reduction over user mean [95 %]" in done.stdout
    assert "Errors of the baselines: user mean 0." in done.stdout


def test_mirrored_sets_are_told_in_one_line(tmp_path: Path) -> None:
    done = palate("evaluate", "-b", "tasting", "-s", "longest", "--by", "subset", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "by subgroup" in line]
    assert line == (
        "tasting: by subset: mirrored couples: no accuracy by subgroup (the two users of a couple "
        "make ½ by construction)."
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--by", "age"), "--by age: write subset, category, month, user or trait:NAME"),
        (("--by", "trait:town"), "no trait 'town' (traits: age; --map"),
        (("-b", "tasting", "--target", "rating"), "tasting has no ratings"),
        (("--target", "stars"), "stars"),
    ],
)
def test_what_cannot_be_grouped_or_rated_is_refused_before_anything_runs(
    rated: Path, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    done = palate("evaluate", "-b", str(rated), "-s", "longest", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert not (tmp_path / "runs").exists()
