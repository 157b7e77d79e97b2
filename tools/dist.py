"""Build what is published, and look at it as those who install it do.

    python tools/dist.py

Builds the source distribution and from it the wheel into dist/, has twine check both, compares
their files with those that git knows, and runs the wheel without extras in an empty environment.
Exits 1 at the first thing that is wrong.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from newcomer import INSTALL, ROOT, empty_environment

DIST = ROOT / "dist"
COMMANDS = (
    ("palate", "--version"),
    ("palate", "list"),
    ("palate", "evaluate", "-b", "tasting", "-s", "longest"),
)
"""They need no extra."""


def known_files(under: str = "") -> set[str]:
    """Return the files that git knows below a folder, by their paths in it."""
    listed = subprocess.run(
        ("git", "ls-files", "-z", f"./{under}"),
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return {path.removeprefix(under) for path in listed.stdout.split("\0") if path}


def files_of_source(archive: Path) -> set[str]:
    """Return the files of a source distribution, but for the one that building adds."""
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    return names - {"PKG-INFO"}


def files_of_wheel(archive: Path) -> set[str]:
    """Return the files of a wheel, but for its metadata."""
    with zipfile.ZipFile(archive) as wheel:
        return {name for name in wheel.namelist() if ".dist-info/" not in name}


def differences(name: str, there: set[str], wanted: set[str]) -> Iterator[str]:
    """Yield a line for each file that is missing or should not be there."""
    yield from (f"{name} lacks {path}" for path in sorted(wanted - there))
    yield from (f"{name} has {path}, which git does not know" for path in sorted(there - wanted))


def run_without_extras(wheel: Path) -> None:
    """Install a wheel alone into an empty environment and run commands there."""
    with tempfile.TemporaryDirectory(prefix="palate-dist-") as folder:
        environment = empty_environment(Path(folder))
        for command in ((*INSTALL, str(wheel)), *COMMANDS):
            subprocess.run(command, cwd=Path(folder) / "work", env=environment, check=True)


def main() -> int:
    """Build, check, compare and run; return 1 where something is wrong."""
    shutil.rmtree(DIST, ignore_errors=True)
    python = (sys.executable, "-m")
    try:
        subprocess.run((*python, "build", "--outdir", str(DIST), str(ROOT)), check=True)
        (source,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
        subprocess.run((*python, "twine", "check", "--strict", source, wheel), check=True)
        faults = [
            *differences(source.name, files_of_source(source), known_files()),
            *differences(wheel.name, files_of_wheel(wheel), known_files("src/")),
        ]
        sys.stdout.writelines(f"{fault}\n" for fault in faults)
        if faults:
            return 1
        run_without_extras(wheel)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
