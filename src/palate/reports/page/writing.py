"""The page as one self-contained file: templates, styles and script with a policy over them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from palate.errors import UsageError, writing
from palate.files import write_whole
from palate.html import colours
from palate.reports.html import filled
from palate.reports.page.figures.drawing import inline
from palate.reports.page.parts import Section
from palate.words import shortened

GENERATOR = '<meta name="generator" content="palate">'
SCRIPTS = ("tablesort/tablesort.min.js", "tablesort/tablesort.number.min.js", "templates/page.js")


def write_page(html: str, file: Path) -> None:
    """Write the page; raises `UsageError` where that cannot be."""
    with writing(file, UsageError):
        write_whole(file, html)


def check_output(file: Path) -> None:
    """Raise `UsageError` for an output that is no page, or that is there and is not palate's."""
    if file.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"-o {file}: expected a file that ends in .html")
    if not file.exists():
        return
    with writing(f"-o {file}", UsageError), file.open("rb") as stream:
        is_page = GENERATOR.encode() in stream.read(4096)
    if not is_page:
        raise UsageError(f"-o {file}: exists and is no page of palate's; choose another name")


def render_page(sections: Iterable[Section], **more: object) -> str:
    """Return the page; every text is escaped where it is put in."""
    style = f"{colours()}\n{_read('templates/page.css')}"
    script = "\n".join(map(_read, SCRIPTS))
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    # The policy and the generator stand first, so that nothing precedes them.
    return filled(
        "page.html",
        sections=list(sections),
        style=Markup(style),
        script=Markup(script),
        policy=policy,
        generator=Markup(GENERATOR),
        inline=inline,
        cut=shortened,
        **more,
    )


def _read(name: str) -> str:
    return files(__package__).joinpath(*name.split("/")).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
