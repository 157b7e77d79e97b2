"""The parts of a page, and their drawings: inline SVG there, files as they are."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from xml.etree import ElementTree as Tree

from markupsafe import Markup

from palate.errors import UsageError, needing, writing
from palate.files import whole_file, write_whole
from palate.html import printable
from palate.reports.names import Names
from palate.reports.table import Table

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

MOST_LINES = 12
"""Of a drawing: more cannot be told apart."""


def symbol(name: str) -> Markup:
    """Return one of the marks that the page defines at its top."""
    return Markup(
        '<svg class="mark" aria-hidden="true" viewBox="0 0 12 12"><use href="#mark-{}"/></svg>'
    ).format(name)


@dataclass(frozen=True)
class Picture:
    """A drawing with what stands for it: a title, a description and its numbers."""

    template: ClassVar[str] = "picture.html"
    name: str
    """Its id on the page, and its file's name."""
    title: str
    description: str
    table: Table
    drawing: Any
    """A figure of matplotlib's."""
    draw: Callable[[Any], None] | None = None
    """How it is drawn on axes, where `--plot` sets it beside others."""


@dataclass(frozen=True)
class Text:
    """A paragraph, or a heading within a section."""

    template: ClassVar[str] = "text.html"
    text: str
    kind: str = "p"


@dataclass(frozen=True)
class Fixed:
    """A template that holds all of its words."""

    template: str


@dataclass(frozen=True)
class Section:
    """One heading of the page, and what stands under it."""

    name: str
    """Its id."""
    title: str
    parts: Sequence[object]
    lead: str = ""


def section(
    heading: str, tables: Callable[[Any], Iterable[Table]]
) -> Callable[..., Iterator[object]]:
    """Return what makes a result's part of a page: a heading, and its tables."""

    def parts(result: object, names: Names, number: int) -> Iterator[object]:
        yield Text(heading, "h3")
        yield from (names.table(table) for table in tables(result))

    return parts


def check_picture(file: Path | None) -> Path | None:
    """Return a picture's name; raises `UsageError` for another, before hours go into one."""
    if file is None:
        return None
    figure, _ = panels(1, 1, (1, 1))
    if file.suffix.lower().lstrip(".") not in figure.canvas.get_supported_filetypes():
        raise UsageError(f"--plot {file}: expected a file that ends in .png or .svg")
    return file


def panels(rows: int, columns: int, size: tuple[float, float], **more: Any) -> tuple[Any, Any]:
    """Return a figure and axes, each this size in inches; raises `UsageError` for no matplotlib."""
    with needing("--plot needs", "plot"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **more)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Any, file: Path) -> None:
    """Write a picture in its folder, always the same bytes; raises `UsageError` if it cannot."""
    undated = {"Date": None} if file.suffix == ".svg" else None
    try:
        with whole_file(file) as stream:
            figure.savefig(stream, format=file.suffix[1:] or "png", dpi=150, metadata=undated)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be written ({error})") from error


WIDTH = 7.6
"""Of a drawing that fills the page, in inches."""
SVG, LINK = "http://www.w3.org/2000/svg", "{http://www.w3.org/1999/xlink}href"
INK, MUTED, RULE, PAPER = "#1b1b1f", "#5c5f66", "#d6d7db", "#fefefe"
BLUE, VERMILION, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
"""Of Okabe and Ito's colours those with a contrast of 3:1 on white and on the dark page."""
THEME = {INK: "ink", MUTED: "muted", RULE: "rule", PAPER: "paper", BLUE: "blue"}
"""Become variables of the page: they differ between light and dark, where blue is sky blue."""
COLOURS = (BLUE, VERMILION, GREEN, PURPLE)
MARKERS = ("o", "D", "^", "s", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
OWN_LOOK: dict[RcKeyType, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "palate",
    "pdf.fonttype": 42,
    "font.size": 10,
    "font.family": ["DejaVu Sans"],
    "text.parse_math": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), MUTED),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor", "savefig.facecolor"), "none"),
    "axes.unicode_minus": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "figure.max_open_warning": 0,
}


@contextmanager
def look() -> Iterator[None]:
    """Draw with palate's look, not the reader's settings; raises `UsageError` for no matplotlib."""
    with needing("palate report needs", "plot"):
        import matplotlib as mpl
        from matplotlib import style
    with style.context("default"), mpl.rc_context(OWN_LOOK), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font may lack a sign that the page's own has
        yield


def picture(
    name: str, title: str, description: str, table: Table, draw: Callable[[Any], None]
) -> Picture:
    """Return a picture of one panel, drawn on its axes."""
    return Picture(name, title, description, table, figure_of([draw]), draw)


@look()
def figure_of(draws: Sequence[Callable[[Any], None]], titles: Sequence[str] = ()) -> Any:
    """Return a figure with a panel for each drawing, side by side, and one legend."""
    figure, (axes,) = panels(1, len(draws), (WIDTH if len(draws) == 1 else 5.2, 3.6))
    named: dict[str, Any] = {}
    for number, (ax, draw) in enumerate(zip(axes, draws, strict=True)):
        draw(ax)
        if titles:
            ax.set_title(label(titles[number], 60))
        handles, labels = ax.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    if named:
        figure.legend(named.values(), named, loc="outside right upper", fontsize=8.5)
    return figure


def label(name: str, longest: int = 34) -> str:
    """Return a name as it stands in a drawing.

    >>> label("a" * 40)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'
    """
    name = " ".join(printable(name).split())
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def inline(picture: Picture) -> Markup:
    """Return the picture as an SVG element that brings no style, no script and no foreign id."""
    root = Tree.fromstring(_saved(picture, "svg"))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    _rename(root, f"{picture.name}-")
    for element in root.iter():
        _restyle(element)
    _shrink(root)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    ends = f"{picture.name}-title", f"{picture.name}-description"
    root.set("role", "img")
    root.set("aria-labelledby", " ".join(ends))
    texts = (picture.title, picture.description)
    for at, (tag, name, text) in enumerate(zip(("title", "desc"), ends, texts, strict=True)):
        element = Tree.Element(f"{{{SVG}}}{tag}", {"id": name})
        element.text = printable(text)
        root.insert(at, element)
    Tree.register_namespace("", SVG)
    return Markup(Tree.tostring(root, encoding="unicode"))


def save_drawing(picture: Picture, folder: Path) -> list[Path]:
    """Write SVG and PDF, always the same bytes; raises `UsageError` where it cannot or may not."""
    files = [folder / f"{picture.name}.{ending}" for ending in ("svg", "pdf")]
    for file in files:
        with writing(file, UsageError):
            if file.exists() and b"palate" not in file.read_bytes():
                raise UsageError(f"{file}: exists and is no figure of palate's; choose another DIR")
            write_whole(file, _saved(picture, file.suffix[1:]))
    return files


def _saved(picture: Picture, ending: str) -> bytes:
    about = {"Title": printable(picture.title), "Creator": "palate"}
    dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None, "Producer": None}}
    if ending == "svg":
        about["Description"] = printable(picture.description)
    stream = io.BytesIO()
    with look():
        picture.drawing.savefig(stream, format=ending, metadata={**about, **dated[ending]})
    return stream.getvalue()


def _rename(root: Tree.Element, prefix: str) -> None:
    # Ids of matplotlib's repeat from figure to figure; those that nothing names go.
    named = set()
    for element in root.iter():
        for value in element.attrib.values():
            named |= set(re.findall(r"url\(#([^)]+)\)", value))
        if LINK in element.attrib:
            named.add(element.attrib[LINK][1:])
    short = {name: f"{prefix}{k}" for k, name in enumerate(sorted(named))}
    for element in root.iter():
        name = element.attrib.pop("id", None)
        if name in short:
            element.set("id", short[name])
        if LINK in element.attrib:
            element.set("href", f"#{short[element.attrib.pop(LINK)[1:]]}")
        for key, value in element.attrib.items():
            if "url(#" in value:
                changed = re.sub(r"url\(#([^)]+)\)", lambda m: f"url(#{short[m[1]]})", value)
                element.set(key, changed)


def _shrink(element: Tree.Element) -> None:
    # Groups without a meaning, and the space between elements, are a third of a drawing.
    children: list[Tree.Element] = []
    for child in element:
        _shrink(child)
        plain = child.tag == f"{{{SVG}}}g" and not child.attrib
        children += list(child) if plain else [child]
    for child in children:
        child.tail = None
    if children:
        element.text = None
    element[:] = children


def _restyle(element: Tree.Element) -> None:
    # Attributes and classes in place of `style`, which a Content-Security-Policy refuses.
    classes = []
    for declaration in filter(None, map(str.strip, element.attrib.pop("style", "").split(";"))):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if value in THEME:
            classes.append(f"{name[0]}-{THEME[value]}")
        elif name == "font":
            size = re.search(r"([\d.]+)px", value)
            element.set("font-size", size[1] if size else "10")
            if re.search(r"\b(bold|[6-9]00)\b", value):
                element.set("font-weight", "bold")
        elif name not in ("font-family", "white-space"):
            element.set(name, value)
    if element.tag.endswith("}text") and "fill" not in element.attrib and not classes:
        classes.append("f-ink")
    if classes:
        element.set("class", " ".join(classes))
