"""A page as text, and in a browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from palate.reports.page import report


def page_of(runs: Any, folder: Path, **more: Any) -> str:
    """Write the page of these runs into the folder, and return it."""
    report(runs, folder / "page.html", **more)
    return (folder / "page.html").read_text(encoding="utf-8")


@contextmanager
def opened(browser: Any, file: Path, width: int, refused: int = 0, **more: Any) -> Iterator[Any]:
    """Open the page; nothing is said on the console but what was refused, nothing is fetched."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **more)
    said: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on(
        "request",
        lambda request: request.url.startswith(("file:", "data:")) or said.append(request.url),
    )
    page.goto(file.as_uri())
    yield page
    context.close()
    assert len(said) == refused
    assert all("Content Security Policy" in each for each in said)
