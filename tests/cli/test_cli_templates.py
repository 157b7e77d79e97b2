"""`--template-date` and `--chat-template`, as typed."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from palate.cli import app
from palate.cli.options import make_settings
from palate.errors import UsageError

CLOCK = (
    "On {{ strftime_now('%d %B %Y') }}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
)


def show(*words: str) -> str:
    done = CliRunner().invoke(app, ["show", "-b", "tasting", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_show_prints_the_day_that_a_template_is_told(tiny) -> None:  # type: ignore[no-untyped-def]
    scorer = f"classifier:{tiny.model('LlamaForSequenceClassification', CLOCK, num_labels=1)}"
    assert "On 26 July 2024<|im_start|>" in show("-s", scorer)
    assert "On 04 March 2025<|im_start|>" in show("-s", scorer, "--template-date", "2025-03-04")


def test_show_reads_a_template_from_a_file(tiny, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder, file = tmp_path / "base", tmp_path / "mine.jinja"
    shutil.copytree(tiny.classifier(), folder)
    (folder / "chat_template.jinja").unlink()
    file.write_text("MINE" + CLOCK)
    shown = show("-s", f"classifier:{folder}", "--chat-template", str(file))
    assert "MINEOn 26 July 2024<|im_start|>" in shown


def test_settings_hold_the_text_of_a_template_and_a_day(tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text(CLOCK)
    made = make_settings(chat_template=str(file), template_date="2025-03-04")
    assert (made.chat_template, made.template_date) == (CLOCK, date(2025, 3, 4))
    assert make_settings(chat_template="tool_use").chat_template == "tool_use"
    file.write_text("no template")
    with pytest.raises(UsageError, match="holds no Jinja"):
        make_settings(chat_template=str(file))
    file.write_bytes(b"\xff{{")
    with pytest.raises(UsageError, match=r"--chat-template .*mine\.jinja"):
        make_settings(chat_template=str(file))
