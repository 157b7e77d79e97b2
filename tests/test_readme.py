"""The README's and the docs' commands are ones that palate knows, with flags that it knows."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.main import get_command

import palate
from palate.cli import app

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from newcomer import PAGES as TRIED
from newcomer import steps

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def commands() -> list[tuple[str, list[str]]]:
    found = []
    for page in PAGES:
        for block in re.findall(
            r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
        ):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("$ palate "):
                    words = shlex.split(line.removeprefix("$ palate "), comments=True)
                    if ">" in words:  # what the shell does with the output
                        words = words[: words.index(">")]
                    found.append((page.name, words))
    return found


@pytest.mark.parametrize(("page", "words"), commands(), ids=lambda value: " ".join(value)[:60])
def test_every_command_in_the_docs_parses(page: str, words: list[str]) -> None:
    command, rest = get_command(app), words
    while hasattr(command, "commands"):
        _, listed, rest = command.resolve_command(None, list(rest))
        command = listed.load()
    try:
        command.make_context(command.name, list(rest), resilient_parsing=False)
    except typer.Exit as ended:  # an option that is all of its command
        assert ended.exit_code == 0


def test_every_link_between_the_pages_leads_somewhere() -> None:
    for page in PAGES:
        prose = re.sub("```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_make_targets_the_readme_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"(?:`|\$ )make ([a-z-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_ci_runs_the_commands_of_the_readme() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make check test test-all" in ci


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_a_newcomer_runs_the_blocks_and_the_tutorials_file_is_data(tmp_path: Path) -> None:
    todo = {page: list(steps(page, (ROOT / page).read_text(encoding="utf-8"))) for page in TRIED}
    titles = [step.title for step in todo["README.md"]]
    assert titles[0].startswith("palate evaluate -b tasting")
    assert titles[-1] == "palate demo"
    kinds = [step.title.split()[1] for step in todo["docs/tutorial.md"] if step.title[0] == "p"]
    assert [kinds[0], kinds[1], *kinds[-2:]] == ["demo", "evaluate", "compare", "report"]
    for step in todo["docs/tutorial.md"]:
        if step.title.startswith("cat "):
            subprocess.run(step.command, cwd=tmp_path, check=True)
    grid = palate.evaluate(tmp_path / "dinner.jsonl", "longest", root=None)
    assert [run.accuracy for run in grid.runs] == [0.5, 0.5, 0.5]
    votes = palate.load_benchmark(str(tmp_path / "lunch.csv"))
    assert (len(votes.pairs), votes.ties) == (4, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"dinner.jsonl", "lunch.csv", "wrote.csv"}


ENVIRONMENT = r"PALATE_DATA|PALATE_API_KEY|PALATE_CACHE|OPENAI_API_KEY|CUDA_VISIBLE_DEVICES"


def test_no_page_is_empty_or_holds_a_place_to_fill_in() -> None:
    for page in PAGES:
        text = re.sub(rf"{ENVIRONMENT}|<\\?\|\w+\\?\|>", "", page.read_text(encoding="utf-8"))
        assert len(text) > 500, page.name
        assert not re.search(r"\b[A-Z]{4,}_[A-Z]{4,}\b", text), page.name
