"""Completion in a real bash: the script that palate prints, and what it offers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

BASH = shutil.which("bash") or ""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("bin")
    command = folder / "palate"
    command.write_text(f"#!{sys.executable}\nfrom palate.cli import main\nmain()\n")
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def script(environment: dict[str, str]) -> str:
    asked = {**environment, "_PALATE_COMPLETE": "source_bash"}
    return subprocess.run(
        ["palate"], env=asked, check=True, capture_output=True, text=True, timeout=120
    ).stdout


@pytest.mark.skipif(not BASH, reason="no bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("palate ev", "evaluate"),
        ("palate evaluate -b ta", "tasting"),
        ("palate best-of-n -b per", "personalized-rewardbench"),
        ("palate evaluate -s lo", "longest"),
        ("palate evaluate -c str", "stranger"),
    ],
)
def test_bash_completes_commands_and_names(
    typed: str, offered: str, script: str, environment: dict[str, str]
) -> None:
    words = typed.split()
    assert "complete -o default -F _palate_completion palate" in script
    press_tab = (
        f"{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}\n"
        '_palate_completion palate; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [BASH, "-c", press_tab], env=environment, check=True, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.stdout.split() == [offered]
