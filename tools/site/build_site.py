"""Build the documentation site, and check every link of what was built.

    python tools/site/build_site.py [FOLDER] [--root ROOT] [--url URL]

Exits 1 with a line for each dead page, anchor, image or reference, and for an object that the
source lacks. FOLDER is replaced only by a site without a fault.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from built_links import check
from stage import SiteError, stage

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MARK = ".palate-site"
WARNING = re.compile(r"Warning: (.+)\n\s*╭─\[ (\S+?):(\d+):(\d+) \]\n\s*│\n\s*\d+ │ (.*)\n")


def build(root: Path, folder: Path, *, url: str = "") -> str:
    """Write the site of a repository, and return what was written in a line.

    Raises:
        SiteError: The pages hold a fault, or the folder is something else than a site.
    """
    if folder.exists() and not (folder / MARK).is_file():
        raise SiteError(f"{folder}: exists and is no site of palate's; name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside the folder, so that one site takes the other's place at once.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".site-") as name:
        tree = Path(name).resolve()
        pages = stage(root, tree, url=url)
        _run_zensical(tree)
        links, faults = check(tree / "site")
        if faults:
            raise SiteError("\n".join(faults))
        (tree / "site" / MARK).touch()
        if folder.exists():
            folder.rename(tree / "old")
        (tree / "site").rename(folder)
    return f"{folder}: {pages} pages, {links:,} links"


def _run_zensical(tree: Path) -> None:
    command = (sys.executable, "-m", "zensical", "build", "--strict")
    paths = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        command, cwd=tree, env=paths, capture_output=True, encoding="utf-8", check=False
    )
    printed = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    if lines := list(dict.fromkeys(_faults(printed, tree / "pages"))):
        raise SiteError("\n".join(lines))
    if done.returncode:
        raise SiteError(f"zensical ended with {done.returncode}:\n{printed}")


def _faults(printed: str, pages: Path) -> Iterator[str]:
    """Yield a line for each fault that the build reports."""
    if missing := re.findall(r"Could not collect '([^']+)'", printed):
        # The page that asks for it was not written, so that links to it are reported too.
        for path in pages.rglob("*.md"):
            for name in {*missing} & {*re.findall(r"^::: (\S+)$", path.read_text("utf-8"), re.M)}:
                yield f"{path.relative_to(pages)}: no such object in the source: {name}"
        return
    for kind, page, line, column, source in WARNING.findall(printed):
        words = re.finditer(r"[^()\[\]\s]+", source)
        target = next((word[0] for word in words if word.end() >= int(column)), source)
        yield f"{page}:{line}: {kind}: {target}"
    for kind, target, page in re.findall(r"^Warning: (.+) `(.+)` in (\S+)$", printed, re.MULTILINE):
        yield f"{page}: {kind}: {target}"
    yield from re.findall(r"^griffe: (.+)$", printed, flags=re.MULTILINE)


def main() -> int:
    """Build and say where the site lies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "site")
    parser.add_argument("--root", type=Path, default=ROOT, help="repository")
    parser.add_argument("--url", default="", help="address at which the site will be read")
    options = parser.parse_args()
    try:
        print(build(options.root.resolve(), options.folder, url=options.url))  # noqa: T201
    except SiteError as fault:
        print(fault, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
