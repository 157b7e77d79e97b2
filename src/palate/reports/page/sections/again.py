"""Section 12: what the numbers come from, and how to have them again."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from palate.reports.page.contents import BenchmarkRuns, Contents
from palate.reports.page.parts import Section
from palate.reports.table import Table
from palate.runs import Manifest
from palate.scorers import GROUP
from palate.specs import registered

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
    note = _note(objects, contents)
    parts: list[object] = [Commands(_commands(contents, objects), note, _downloads(contents))]
    contexts: dict[tuple[str, ...], list[str]] = {}
    for manifest in contents.manifests.values():
        shown = contents.names.context(manifest.identity["context"])
        contexts.setdefault(_facts(contents, manifest), []).append(shown)
    if contexts:
        columns = ["scorer", "contexts", "rows", "model", "dtype", "seed", "versions"]
        rows = [[facts[0], ", ".join(shown), *facts[1:]] for facts, shown in contexts.items()]
        notes = ["Rows and models are named by the first digits of a hash of their content."]
        parts.append(Table("What the runs were made with", columns, rows, notes, len(columns)))
    lead = "Finished runs are not computed again. A path is cut to its last name."
    return Section("again", "Do it again", parts, lead)


def _given_in_python(contents: Contents) -> list[str]:
    """Return the scorers whose names are specs of nothing that is registered."""
    known = registered(GROUP)
    scorers = dict.fromkeys(run.summary.scorer for each in contents.benchmarks for run in each.runs)
    return [name for name in scorers if re.split("[:?]", name)[0] not in known]


def _note(objects: Sequence[str], contents: Contents) -> str:
    if not objects:
        return ""
    listed = ", ".join(map(contents.names.scorer, objects))
    return f"{listed} {'was' if len(objects) == 1 else 'were'} given in Python."


def _commands(contents: Contents, objects: Sequence[str]) -> list[str]:
    commands = []
    for benchmark in contents.benchmarks:
        identities = [
            contents.manifests[run.folder].identity
            for run in benchmark.runs
            if run.folder is not None and run.summary.scorer not in objects
        ]
        groups: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
        for identity in identities:
            groups.setdefault(tuple(map(identity.get, OPTIONS)), []).append(identity)
        commands += [_command(benchmark, some, contents) for some in groups.values()]
    return commands


def _command(
    benchmark: BenchmarkRuns,
    identities: Sequence[Mapping[str, Any]],
    contents: Contents,
) -> str:
    # The identities differ in scorer and context alone.
    public = contents.names.public
    words = ["-b", benchmark.data if benchmark.declared else f"{benchmark.data} (your file)"]
    for flag, name in (("-s", "scorer"), ("-c", "context")):
        for spec in dict.fromkeys(identity[name] for identity in identities):
            words += [flag, public(spec)]
    for name in OPTIONS:
        value = identities[0].get(name)
        if value is not None and value != DEFAULTS.get(name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    return "palate evaluate " + " ".join(map(shlex.quote, words))


def _facts(contents: Contents, manifest: Manifest) -> tuple[str, ...]:
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
    documents = [
        (f"evaluation-{k}" if several else "evaluation", benchmark.grid.document())
        for k, benchmark in enumerate(contents.benchmarks, 1)
    ]
    for k, result in enumerate(contents.others, 1):
        documents.append((f"{result.kind}-{k}", result.document()))
    return [
        (f"{name}.json", _address(contents.names.document(document)))
        for name, document in documents
    ]


def _address(document: Any) -> str:
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return f"data:application/json;base64,{base64.b64encode(text.encode()).decode()}"
