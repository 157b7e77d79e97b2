"""One page from finished runs: its sections in order, the file, and how to have it again."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from markupsafe import Markup

from palate.benchmarks import LoadOptions
from palate.comparison import MARGIN, costs_of
from palate.errors import UsageError, writing
from palate.files import write_whole
from palate.html import colours
from palate.records.arguments import checked, grouped, listed
from palate.reports.contents import BenchmarkRuns, Contents, gather, parts_of
from palate.reports.grid import member_tables
from palate.reports.names import Names
from palate.reports.page_rows import example, rows
from palate.reports.page_scorers import limits, pictures, ranking, scorers
from palate.reports.page_users import subsets, trust, users
from palate.reports.parts import Fixed, Picture, Section, inline, look, save_drawing
from palate.reports.table import Table, account_table, filled
from palate.reports.user_tables import cost_tables
from palate.reports.verdict import doubts, verdict
from palate.runs import Manifest, ResultSource
from palate.scorers import GROUP
from palate.specs import registered
from palate.words import shortened

Maker = Callable[[Contents], Section]
PartsOfBenchmark = Callable[[BenchmarkRuns, Names, int], Iterable[object]]
GENERATOR = '<meta name="generator" content="palate">'
SCRIPTS = (
    "tablesort/tablesort.min.js",
    "tablesort/tablesort.number.min.js",
    "templates/page.js",
    "templates/rows.js",
)


@checked
def report(
    runs: ResultSource | Iterable[ResultSource],
    output: Path | str,
    *,
    data: str | Path | Iterable[str | Path] = (),
    reading: LoadOptions | None = None,
    texts: bool = False,
    figures: Path | str | None = None,
    margin: float = MARGIN,
) -> list[Section]:
    """Write one self-contained page from the finished results at or under these folders.

    Nothing is computed by a model, and nothing is fetched but `data`, whose texts stand beside the
    rows they belong to. `reading` says how files are read, as in `load_benchmark`.
    `texts` shows those of the reader's own files too, and ids of rows.
    `figures` is a folder for every drawing as SVG and PDF. `margin` is the largest fall in accuracy
    that is harmless where users are shown to rows that name nobody.

    Raises:
        UsageError: for an output that is not palate's, a margin outside (0, ½), and without
            matplotlib.
        RunError: where there is no finished result.
        DataError: for data of other rows.
    """
    output = Path(output)
    check_output(output)
    with look():
        pass
    contents = gather(
        runs, [str(each) for each in listed(data)], private=texts, reading=reading or LoadOptions()
    )
    contents = replace(contents, margin=margin)
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
                    save_drawing(part, Path(figures))
    return sections


def _finding(contents: Contents) -> str:
    if not contents.benchmarks:
        return "What users get"

    def told(benchmark: BenchmarkRuns) -> str:
        of = benchmark.findings, contents.names.scorers
        text = " ".join(text for text in (verdict(*of), *doubts(*of)) if text)
        return text or "No run tells whether the right user matters."

    verdicts = grouped(contents.benchmarks, told)
    if len(verdicts) == 1:
        return next(iter(verdicts))
    return " ".join(
        f"On {', '.join(each.name for each in some)}: {text}" for text, some in verdicts.items()
    )


def _facts(contents: Contents) -> list[tuple[str, str]]:
    benchmarks, texts = contents.benchmarks, contents.texts
    any_text = any(source.shown for _, source in texts.rows.values())
    words = {True: "shown", False: "not shown"}
    shown_here = f"Texts {words[any_text]}; ids {words[texts.private]}"
    licences = (each.declared.licence if each.declared else "as the file’s" for each in benchmarks)
    facts = {
        "Benchmark": ", ".join(dict.fromkeys(each.data for each in benchmarks)),
        "Size": "; ".join(each.size for each in benchmarks),
        "Licence of the data": ", ".join(dict.fromkeys(licences)),
        "On this page": f"{shown_here}; users named U1, U2, …",
        "Made with": f"palate {version('palate')}",
    }
    return [(name, value) for name, value in facts.items() if value]


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
    style = "\n".join((colours(), _read("templates/page.css"), _read("templates/rows.css")))
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


def benefit(contents: Contents) -> Section:
    """Return what there is of every kind of result but runs."""
    parts = [
        part
        for number, result in enumerate(contents.others, 1)
        for part in parts_of(result.kind)(result, contents.names, number)
    ]
    return Section("benefit", "What users get", parts)


OPTIONS = ("batch_tokens", "device", "dtype", "limit", "mirrors", "seed", "since", "split", "until")
DEFAULTS = {"seed": 0, "batch_tokens": 4096, "split": "all"}


@dataclass(frozen=True)
class Commands:
    """Commands to type, and documents to keep."""

    template: ClassVar[str] = "commands.html"
    commands: list[str]
    note: str
    """What the commands leave out."""
    downloads: list[tuple[str, str]]
    """Names of documents, and links that hold them."""


def again(contents: Contents) -> Section:
    """Return the commands, the manifests and the JSON documents."""
    objects = _given_in_python(contents)
    note = ""
    if objects:
        listed = ", ".join(map(contents.names.scorer, objects))
        note = f"{listed} {'was' if len(objects) == 1 else 'were'} given in Python."
    parts: list[object] = [Commands(_commands(contents, objects), note, _downloads(contents))]
    by_facts = grouped(contents.manifests.values(), lambda each: _run_facts(contents, each))
    if by_facts:
        columns = ["scorer", "contexts", "rows", "model", "dtype", "seed", "versions"]
        rows = []
        for (scorer, *facts), manifests in by_facts.items():
            shown = (contents.names.context(each.identity["context"]) for each in manifests)
            rows.append([scorer, ", ".join(shown), *facts])
        notes = ["Rows and models are named by the first digits of a hash of their content."]
        parts.append(Table("What the runs were made with", columns, rows, notes, len(columns)))
    parts += _accounts(contents)
    lead = "Finished runs are not computed again. A path is cut to its last name."
    return Section("again", "Do it again", parts, lead)


def _accounts(contents: Contents) -> Iterator[Table]:
    """Yield what was read of each data set, once; of columns named by users without their ids."""
    users, made = contents.names.users, contents.manifests.values()
    accounts = {(m.identity["benchmark"], str(m.account)): m.account for m in made if m.account}
    for (data, _), account in accounts.items():
        named = [] if contents.texts.private else [u for u in users if u in str(account.columns)]
        ids = "|".join(map(re.escape, sorted(named, key=len, reverse=True))) or "(?!)"
        columns = {
            re.sub(rf"(?<!\w)(?:{ids})(?!\w)", lambda it: users[it.group()], name): use
            for name, use in account.columns.items()
        }
        yield contents.names.table(account_table(data, replace(account, columns=columns)))


def _given_in_python(contents: Contents) -> list[str]:
    """Return the scorers whose names are specs of nothing that is registered."""
    known = registered(GROUP)
    scorers = dict.fromkeys(run.summary.scorer for each in contents.benchmarks for run in each.runs)
    return [name for name in scorers if re.split("[:?]", name)[0] not in known]


def _commands(contents: Contents, objects: Sequence[str]) -> list[str]:
    commands = []
    for benchmark in contents.benchmarks:
        manifests = [
            contents.manifests[run.folder]
            for run in benchmark.runs
            if run.folder is not None and run.summary.scorer not in objects
        ]
        alike = grouped(manifests, lambda m: (m.command, *map(m.identity.get, OPTIONS)))
        commands += [_command(benchmark, some, contents.names) for some in alike.values()]
    return commands


def _command(benchmark: BenchmarkRuns, manifests: Sequence[Manifest], names: Names) -> str:
    # The manifests differ in scorer and context alone.
    identities = [manifest.identity for manifest in manifests]
    unknown = ["-b", benchmark.data if benchmark.declared else f"{benchmark.data} (your file)"]
    words = [names.public(word) for word in manifests[0].command] or unknown
    for flag, name in (("-s", "scorer"), ("-c", "context")):
        for spec in dict.fromkeys(identity[name] for identity in identities):
            words += [flag, names.public(spec)]
    for name in OPTIONS:
        value = identities[0].get(name)
        if value is not None and value != DEFAULTS.get(name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    return "palate evaluate " + " ".join(map(shlex.quote, words))


def _run_facts(contents: Contents, manifest: Manifest) -> tuple[str, ...]:
    identity, names = manifest.identity, contents.names
    models = [str(each["content"])[:8] for each in manifest.details if "content" in each]
    versions = ", ".join(
        f"{name} {manifest.versions[name]}"
        for name in ("palate", "torch", "transformers", "numpy")
        if name in manifest.versions
    )
    return (
        names.scorer(identity["scorer"]),
        str(identity["rows"])[:8],
        ", ".join(dict.fromkeys(models)) or "–",
        str(identity.get("dtype") or "–"),
        str(identity.get("seed")),
        versions,
    )


def _downloads(contents: Contents) -> list[tuple[str, str]]:
    several = len(contents.benchmarks) > 1
    documents = {
        f"evaluation-{k}" if several else "evaluation": benchmark.grid.document()
        for k, benchmark in enumerate(contents.benchmarks, 1)
    }
    for k, result in enumerate(contents.others, 1):
        documents[f"{result.kind}-{k}"] = result.document()
    links = []
    for name, document in documents.items():
        public = contents.names.document(document)
        text = json.dumps(public, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        address = f"data:application/json;base64,{base64.b64encode(text.encode()).decode()}"
        links.append((f"{name}.json", address))
    return links


def _of_each(name: str, title: str, make: PartsOfBenchmark, lead: str = "") -> Maker:
    # A section whose parts come from each benchmark on its own; benchmarks count from 1.
    def section(contents: Contents) -> Section:
        numbered = enumerate(contents.benchmarks, 1)
        parts = [part for k, each in numbered for part in make(each, contents.names, k)]
        return Section(name, title, parts, lead)

    return section


def _costs(contents: Contents) -> Section:
    costs = [costs_of(each.runs, margin=contents.margin) for each in contents.benchmarks]
    tables = [contents.names.table(table) for each in costs for table in cost_tables(each)]
    return Section("costs", "What it costs", tables)


SECTIONS: tuple[Maker, ...] = (
    _of_each("scorers", "Scorers", scorers, "Does a scorer know whom it is judging for?"),
    _of_each("picture", "What is shown, and what it is worth", pictures),
    example,
    _costs,
    _of_each("users", "Who is served badly", users),
    _of_each("subsets", "Subsets", subsets),
    _of_each(
        "members",
        "Members of panels and mixes",
        lambda of, names, _: map(names.table, member_tables(of.name, of.runs)),
    ),
    _of_each("trust", "Can I trust it?", trust),
    rows,
    ranking,
    benefit,
    lambda _: Section("words", "Words", [Fixed("words.html")]),
    again,
)
"""From top to bottom; one without a part is left out."""
