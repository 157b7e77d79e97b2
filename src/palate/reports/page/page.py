"""One page from finished runs: its sections in order, and the file they become."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path

from palate.benchmarks import LoadOptions
from palate.reports.noise import doubts
from palate.reports.page.contents import BenchmarkRuns, Contents, gather
from palate.reports.page.figures.drawing import look, save
from palate.reports.page.names import Names
from palate.reports.page.parts import Fixed, Picture, Section
from palate.reports.page.sections.again import again
from palate.reports.page.sections.benefit import benefit
from palate.reports.page.sections.disagreement import disagreements
from palate.reports.page.sections.example import example
from palate.reports.page.sections.overview import limits, pictures, scorers
from palate.reports.page.sections.ranking import ranking
from palate.reports.page.sections.spread import subsets, users
from palate.reports.page.sections.trust import trust
from palate.reports.page.writing import check_output, render_page, write_page
from palate.reports.verdict import verdict

Maker = Callable[[Contents], Section]
PartsOfBenchmark = Callable[[BenchmarkRuns, Names, int], Iterable[object]]


def _of_each(name: str, title: str, make: PartsOfBenchmark, lead: str = "") -> Maker:
    # A section whose parts come from each benchmark on its own; benchmarks count from 1.
    def section(contents: Contents) -> Section:
        numbered = enumerate(contents.benchmarks, 1)
        parts = [part for k, each in numbered for part in make(each, contents.names, k)]
        return Section(name, title, parts, lead)

    return section


SECTIONS: tuple[Maker, ...] = (
    _of_each("scorers", "Scorers", scorers, "Does a scorer know whom it is judging for?"),
    _of_each("picture", "What is shown, and what it is worth", pictures),
    example,
    _of_each("users", "Who is served badly", users),
    _of_each("subsets", "Subsets", subsets),
    _of_each("trust", "Can I trust it?", trust),
    disagreements,
    ranking,
    benefit,
    lambda _: Section("words", "Words", [Fixed("words.html")]),
    again,
)
"""From top to bottom; one without a part is left out."""


def report(
    runs: Path | str | Iterable[Path | str],
    output: Path,
    *,
    data: Iterable[str] = (),
    reading: LoadOptions | None = None,
    texts: bool = False,
    figures: Path | None = None,
) -> list[Section]:
    """Write one self-contained page from the finished results at or under these folders.

    Nothing is computed by a model, and nothing is fetched but `data`, whose texts stand beside the
    rows they belong to. `reading` says how files are read, as in `load_benchmark`.
    `texts` shows those of the reader's own files too, and ids of rows.
    `figures` is a folder for every drawing as SVG and PDF.

    Raises:
        UsageError: for an output that is not palate's, and without matplotlib.
        RunError: where there is no finished result.
        DataError: for data of other rows.
    """
    check_output(output)
    with look():
        pass
    contents = gather(runs, data, private=texts, reading=reading or LoadOptions())
    sections = [made for make in SECTIONS if (made := make(contents)).parts]
    write_page(
        render_page(
            sections,
            title=f"palate: {', '.join(each.name for each in contents.benchmarks) or 'results'}",
            finding=contents.names.public(_finding(contents)).replace("'", "’"),
            limits=[text for each in contents.benchmarks if (text := limits(each))],
            facts=_facts(contents),
        ),
        output,
    )
    if figures is not None:
        for section in sections:
            for part in section.parts:
                if isinstance(part, Picture):
                    save(part, figures)
    return sections


def _finding(contents: Contents) -> str:
    if not contents.benchmarks:
        return "What users get"
    verdicts: dict[str, list[str]] = {}
    for each in contents.benchmarks:
        told = each.findings, contents.names.scorers
        text = " ".join(text for text in (verdict(*told), *doubts(*told)) if text)
        verdicts.setdefault(text or "No run tells whether the right user matters.", []).append(
            each.name
        )
    if len(verdicts) == 1:
        return next(iter(verdicts))
    return " ".join(f"On {', '.join(names)}: {text}" for text, names in verdicts.items())


def _facts(contents: Contents) -> list[tuple[str, str]]:
    names = dict.fromkeys(each.data for each in contents.benchmarks)
    sizes = [each.size for each in contents.benchmarks]
    licences = dict.fromkeys(
        each.declared.licence if each.declared else "as the file’s" for each in contents.benchmarks
    )
    any_text = any(source.shown for _, source in contents.texts.rows.values())
    shown_here = f"Texts {'shown' if any_text else 'not shown'}; ids "
    shown_here += "shown" if contents.texts.private else "not shown"
    facts = [
        ("Benchmark", ", ".join(names)),
        ("Size", "; ".join(sizes)),
        ("Licence of the data", ", ".join(licences)),
        ("On this page", f"{shown_here}; users named U1, U2, …"),
        ("Made with", f"palate {version('palate')}"),
    ]
    return [(name, value) for name, value in facts if value]
