"""palate serve: its options, and one line where the extra is missing."""

from __future__ import annotations

import sys

import pytest

from palate.cli.serve import Serving
from palate.errors import UsageError
from palate.serve import serve_settings


def made(options):
    return serve_settings(
        options.max_waiting,
        options.key_env,
        options.feedback,
        options.end_of_turn,
        test_share=options.test_share,
    )


def test_options_become_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("MINE", "abc")
    given = Serving(
        max_waiting=7, key_env="MINE", feedback=tmp_path / "f.jsonl", end_of_turn=["<|mine|>"]
    )
    settings = made(given)
    assert (settings.max_waiting, settings.key) == (7, "abc")
    assert settings.feedback is not None and (tmp_path / "f.jsonl").exists()
    assert settings.ends == ("<|mine|>",), "the usual ones are known by their look"
    plain = made(Serving())
    assert (plain.key, plain.feedback) == (None, None)


def test_a_share_is_one_of_choices_that_are_there(tmp_path):
    with pytest.raises(UsageError, match=r"--test-share 0\.3: of which choices\? Name --feedback"):
        made(Serving(test_share=0.3))
    with pytest.raises(UsageError, match=r"--test-share 2: expected a share"):
        made(Serving(test_share=2, feedback=tmp_path / "f.jsonl"))


def test_a_missing_extra_is_one_line(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("palate.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageError, match=r"pip install 'palate\[serve\]' \(prometheus_client is m"):
        made(Serving())
