"""Open the pages of a built site in Chromium, and name all that a reader would trip over.

    python tools/site/browse.py [FOLDER] [--every N] [--pictures FOLDER]

Every page is opened at 390 and at 1440 pixels, light and dark. Exits 1 with a line for each message
of the console, request to another server, sideways scroll, rule of axe that fails, and block of
the front page that is cut off at 1440 pixels.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

SITE = Path(__file__).resolve().parents[2] / "site"
WIDTHS = (390, 1440)
SCHEMES = ("light", "dark")
OF_THE_THEME = ("color-contrast", "landmark-unique", "scrollable-region-focusable")
"""Rules of axe that the theme's own parts break."""
AXE = {"rules": {rule: {"enabled": False} for rule in OF_THE_THEME}, "resultTypes": ["violations"]}
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
COLOURS = "getComputedStyle(document.body).colorScheme"
CUT_OFF = """[...document.querySelectorAll('article pre, article pre > code')]
  .filter(block => block.scrollWidth > block.clientWidth && block.clientWidth)
  .map(block => block.innerText.slice(0, 60))"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a folder on the loopback address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def addresses(site: Path, every: int = 1) -> list[str]:
    """Return the pages of a site, the front page first, or every n-th of them."""
    pages = sorted(page.parent.relative_to(site).as_posix() for page in site.rglob("index.html"))
    return ["" if page == "." else f"{page}/" for page in pages][::every]


def faults(browser: Any, site: Path, pages: list[str], pictures: Path | None = None) -> list[str]:
    """Open pages, and return a line for each fault."""
    lines: list[str] = []
    place = ""

    def note(kind: str, text: object) -> None:
        lines.append(f"{place}: {kind}: {text}")

    def note_outside(request: Any) -> None:
        if not request.url.startswith((base, "data:", "blob:")):
            note("request", request.url)

    with served(site) as base:
        for scheme, width in product(SCHEMES, WIDTHS):
            size = {"width": width, "height": 900}
            context = browser.new_context(color_scheme=scheme, viewport=size)
            tab = context.new_page()
            tab.on("console", lambda message: note("console", message.text))
            tab.on("pageerror", lambda error: note("error", error))
            tab.on("request", note_outside)
            for page in pages:
                place = f"{page or 'front page'} at {width} px, {scheme}"
                tab.goto(base + page, wait_until="load")
                for kind, text in _seen(tab, scheme, whole=page == "" and width == max(WIDTHS)):
                    note(kind, text)
                if pictures is not None:
                    name = page.strip("/").replace("/", "-") or "front"
                    tab.screenshot(path=pictures / f"{name}-{width}-{scheme}.png")
            context.close()
    return lines


def _seen(tab: Any, scheme: str, *, whole: bool) -> Iterator[tuple[str, object]]:
    """Yield the kind and the text of each fault of the page that is open."""
    if (over := tab.evaluate(SIDEWAYS)) > 0:
        yield "scrolls sideways", f"{over} px"
    if (colours := tab.evaluate(COLOURS)) != scheme:
        yield "colours", colours
    if whole:
        yield from (("cut off", text) for text in tab.evaluate(CUT_OFF))
    for rule in Axe().run(tab, options=AXE).response["violations"]:
        yield f"axe {rule['id']}", rule["nodes"][0]["html"][:120]


def main() -> int:
    """Open the pages, and print the faults."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=SITE)
    parser.add_argument("--every", type=int, default=1, help="open every n-th page only")
    parser.add_argument("--pictures", type=Path, help="also take a picture of each")
    options = parser.parse_args()
    pages = addresses(options.folder, options.every)
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        lines = faults(browser, options.folder.resolve(), pages, options.pictures)
        browser.close()
    for line in lines:
        print(line)  # noqa: T201
    print(f"{len(pages)} pages opened {len(WIDTHS) * len(SCHEMES)} times: {len(lines)} faults")  # noqa: T201
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
