"""One file read in two ways is two sets, each named by its options."""

import pytest

import palate
from command_line import palate as command
from palate.errors import ComparisonError
from palate.runs import load_runs

pytest.importorskip("matplotlib")

VOTES = "annotator,prompt,response_a,response_b,winner\n" + "".join(
    f'u{k % 6},"Which tea, {k // 2}?",Green {k}.,Black {k} of it.,{"ab"[k % 2]}\n'
    for k in range(36)
)
POSTS = "annotator,text,date\n" + "".join(
    f"u{k % 6},I wrote the post {k} about tea.,2024-01-{k + 1:02d}\n" for k in range(24)
)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "votes.csv").write_text(VOTES, encoding="utf-8")
    (tmp_path / "posts.csv").write_text(POSTS, encoding="utf-8")
    for options in ([], ["--posts", "posts.csv"]):
        done = command("evaluate", "-b", "votes.csv", "-s", "longest", "-s", "shortest", *options,
                       "-c", "none", cwd=tmp_path)  # fmt: skip
        assert done.returncode == 0, done.stderr
    return tmp_path


def test_with_and_without_posts_stand_side_by_side_on_page_and_in_compare(place):
    made = command("report", "runs", "-o", "page.html", cwd=place)
    assert made.returncode == 0, made.stderr
    page = (place / "page.html").read_text(encoding="utf-8")
    assert "votes --posts posts.csv" in page
    assert "palate evaluate -b votes.csv --posts posts.csv -s longest" in page
    assert "palate evaluate -b votes.csv -s longest" in page
    compared = command("compare", "runs", cwd=place)
    assert compared.returncode == 0, compared.stderr
    assert "votes, none: 2 scorers" in compared.stdout
    assert "votes --posts posts.csv, none: 2 scorers" in compared.stdout


def test_days_and_limits_name_the_sets_too(place):
    command("evaluate", "-b", "votes.csv", "-s", "longest", "-s", "shortest", "--limit", "20",
            "-c", "none", cwd=place)  # fmt: skip
    compared = command("compare", "runs", cwd=place)
    assert compared.returncode == 0, compared.stderr
    assert "votes --limit 20, none: 2 scorers" in compared.stdout


def test_what_no_option_tells_apart_is_refused_as_before(place):
    changed = VOTES.replace("Green 1.", "Green tea.")
    (place / "votes.csv").write_text(changed, encoding="utf-8")
    command("evaluate", "-b", "votes.csv", "-s", "longest", "-c", "none", cwd=place)
    with pytest.raises(ComparisonError, match=r"is there twice: .* differ in rows"):
        palate.compare(load_runs(place / "runs"))
