"""The command under *Do it again* gives the same runs, from the same files."""

import html
import re
import shlex
from pathlib import Path

import pytest

from command_line import palate
from palate.benchmarks import LoadOptions
from palate.data import LayoutOptions

pytest.importorskip("matplotlib")

VOTES = "annotator,prompt,response_a,response_b,winner,day\n" + "".join(
    f'u{k % 6},"Which tea, {k // 2}?",Green {k}.,Black {k} of it.,{("a", "b", "tie")[k % 3]},2024\n'
    for k in range(36)
)
POSTS = "annotator,text,date\n" + "".join(
    f"u{k % 6},I wrote the post {k} about tea.,2024-01-{k + 1:02d}\n" for k in range(24)
)
CHOICES = "annotator,prompt,response_a,response_b,winner,id\n" + "".join(
    f'u{k % 6},"Which cup, {k}?",Small {k}.,Large {k} of it.,a,past{k}\n' for k in range(12)
)


@pytest.fixture
def files(tmp_path):
    place = tmp_path / "my data"
    place.mkdir()
    bad = 'u1,"Which tea, 99?",,Black.,a,2024\n'
    (place / "my votes.csv").write_text(VOTES + bad, encoding="utf-8")
    (place / "posts.csv").write_text(POSTS, encoding="utf-8")
    (place / "past.csv").write_text(CHOICES, encoding="utf-8")
    return place


@pytest.mark.parametrize(
    "options",
    [
        ["--posts", "posts.csv", "--skip-bad-rows", "-c", "none", "-c", "profile:2"],
        ["--posts", "posts.csv", "--skip-bad-rows", "--order-as-in-file", "-c", "profile:2"],
        ["--choices", "past.csv", "--skip-bad-rows", "-c", "examples:1", "--limit", "12"],
        ["--skip-bad-rows", "--vote", "tie=second", "--seed", "3", "-c", "none"],
    ],
)
def test_the_command_of_a_page_gives_the_runs_that_it_is_of(files, options):
    from_above = [f"my data/{word}" if word.endswith(".csv") else word for word in options]
    first = palate("evaluate", "-b", "my data/my votes.csv", "-s", "longest", *from_above,
                   "-o", "my data/runs", cwd=files.parent)  # fmt: skip
    assert first.returncode == 0, first.stderr
    made = palate("report", "runs", "-o", "page.html", cwd=files)
    assert made.returncode == 0, made.stderr
    page = html.unescape((files / "page.html").read_text(encoding="utf-8"))
    (command,) = re.findall(r"<code>palate (evaluate .*?)</code>", page)
    before = {path: path.read_bytes() for path in files.glob("runs/**/summary.json")}
    again = palate(*shlex.split(command), cwd=files)
    assert again.returncode == 0, again.stderr
    assert {path: path.read_bytes() for path in files.glob("runs/**/summary.json")} == before


def test_the_page_tells_of_bad_rows_and_of_votes_for_neither(files):
    palate("evaluate", "-b", "my votes.csv", "-s", "longest", "--skip-bad-rows", cwd=files)
    palate("report", "runs", "-o", "page.html", cwd=files)
    page = (files / "page.html").read_text(encoding="utf-8")
    assert "Left out of the data: 1 bad rows, 12 votes for neither." in page


def test_the_page_says_what_was_read_of_the_data_once_and_names_no_user(files):
    rows = "".join(f"Tea {k}?,Green {k}.,Black {k}.,{'ab'[k % 2]},b\n" for k in range(12))
    each = f"prompt,response_a,response_b,rater_1,rater_2\n{rows}"
    (files / "each.csv").write_text(each, encoding="utf-8")
    palate("evaluate", "-b", "my votes.csv", "-b", "each.csv", "-s", "longest", "-s", "shortest",
           "--skip-bad-rows", cwd=files)  # fmt: skip
    pages = []
    for options in ((), ("--texts",)):
        palate("report", "runs", "-o", "page.html", *options, cwd=files)
        text = html.unescape((files / "page.html").read_text(encoding="utf-8"))
        section = text.partition('<section id="again"')[2].partition("</section>")[0]
        pages.append(" ".join(re.sub("<[^>]*>", " ", section).split()))
    for page in pages:
        assert page.count("what was read of my votes") == 1
        assert "rows 36 users 6, 0 with posts" in page
        assert "bad rows, left out 1: response_a: missing" in page
        assert "rows 24 users 2, 0 with posts" in page
    assert "each of rater_1, rater_2" in pages[1]
    assert "rater_" not in pages[0] and "each of U" in pages[0]


def test_every_option_of_loading_has_its_words():
    layout = LayoutOptions("votes", "adjacent", {"1": "first"}, Path("a/p.csv"))
    options = LoadOptions("copy", "v1", {"user_id": "who"}, True, True, 2**20, layout)
    assert shlex.join(options.words()) == (
        "--source copy --revision v1 --map user_id=who --skip-bad-rows --order-as-in-file "
        "--max-line 1.0 --layout votes --pairs adjacent --vote 1=first --posts p.csv"
    )
    assert LoadOptions().words() == []


def test_a_page_to_send_says_once_what_to_add(files):
    votes, options = "my votes.csv", ["--skip-bad-rows", "-c", "none"]
    palate("evaluate", "-b", votes, "-s", "longest", "-s", "shortest", *options, cwd=files)
    (files / "votes2.csv").write_text(VOTES.replace("Which tea", "Which cup"), encoding="utf-8")
    palate("evaluate", "-b", "votes2.csv", "-s", "longest", "-s", "shortest", *options, cwd=files)
    palate("report", "runs", "-b", votes, "-b", "votes2.csv", "-o", "page.html", cwd=files)
    page = (files / "page.html").read_text(encoding="utf-8")
    assert page.count("add --texts to show them here") == 1


@pytest.mark.parametrize(
    ("posts", "head"),
    [
        (None, "no post of theirs was read (a file of posts is named by --posts)"),
        (POSTS, "wrote, nearest to the question first"),
        (POSTS.replace("about tea", "of trains"), "wrote, latest first"),
    ],
)
def test_posts_are_headed_by_what_their_order_is(files, posts, head):
    options = ["--skip-bad-rows", *(["--posts", "posts.csv"] if posts else [])]
    if posts:
        (files / "posts.csv").write_text(posts, encoding="utf-8")
    words = ["-b", "my votes.csv", *options]
    palate("evaluate", *words, "-s", "longest", "-c", "none", cwd=files)
    done = palate("report", "runs", *words, "--texts", "-o", "page.html", cwd=files)
    assert done.returncode == 0, done.stderr
    assert f"<h4>{head}</h4>" in (files / "page.html").read_text(encoding="utf-8")
