"""Finished grids, read back without a model where nothing changed that their figures depend on.

Everything is held by its content: palate's own files, rows, models, and what the runs' folders
hold. Whatever is not known to depend on these alone is planned and recalled as ever.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import file_digest
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from palate.benchmarks import Dataset
from palate.comparison.gains import gains_of
from palate.comparison.grid import Grid
from palate.contexts import context_spec
from palate.data import content_hash
from palate.errors import PalateError
from palate.evaluation import RecomputeOptions, Work
from palate.records.arguments import ObjectName
from palate.runs import Run, versions
from palate.seeding import digest
from palate.specs import Reference, Spec, registered

SCORERS = {
    *("random", "longest", "shortest", "similarity", "likelihood", "lift", "implicit"),
    *("autoregressive", "classifier", "judge", "personal"),
}
CONTEXTS = {"none", "profile", "stranger", "examples", "rubric", "traits", "pressure"}
"""Kinds whose numbers come of rows, settings and the models and files that their specs name."""
PLAIN = re.compile(r"[\w.,+-]*\Z")
LIBRARIES = ("tokenizers", "peft", "safetensors", "jinja2", "pydantic", "accelerate", "kernels")
DEVICES = ("dev/nvidia*", "dev/kfd", "dev/dri/render*", "proc/driver/nvidia/version")
VARIABLES = ("_VISIBLE_DEVICES", "_AFFINITY_MASK", "_DEVICE_SELECTOR")


def grid_key(
    sets: Sequence[Dataset],
    scorers: Iterable[str],
    contexts: Iterable[str] | None,
    work: Work,
    twice: RecomputeOptions,
    *,
    rate_undecided: bool,
    kinds: str | None = None,
) -> str | None:
    """Return the hash of all that a grid's figures depend on; None where that is not known."""
    if work.root is None or work.shard or work.retry_unscored or twice.ask_again:
        return None
    try:
        named = [_contents(text, "scorers", SCORERS, work) for text in scorers]
        chosen = [
            [_contents(str(part), "contexts", CONTEXTS, work) for part in context_spec(text).parts]
            for text in contexts or ()
        ]
    except (PalateError, OSError, ValueError):  # planning says what is wrong
        return None
    if None in named or any(None in parts for parts in chosen):
        return None
    data = [
        [
            [each.name, each.how_read, each.ties, len(each.bad_rows), each.history_left_out],
            [each.account and each.account.facts()],
            [each.content_hash, each.history_hash, content_hash((*each.undecided, *each.unrated))],
        ]
        for each in sets
    ]
    settings = work.settings.model_dump(mode="json")
    how = None if contexts is None else chosen, kinds, twice, rate_undecided
    request = [data, named, *how, settings, work.session.quoting]
    return digest("grid", str(work.root.resolve()), request, work.session.engine, _surroundings())


def recall(key: str | None, work: Work) -> Grid | None:
    """Return the finished grid of this key; None where a file of its runs is not as it was."""
    stored = None if key is None else work.session.store.documents("grids").get_json(key)
    if stored is None or any(_files(Path(place)) != content for place, content in stored["runs"]):
        return None
    runs = tuple(Run.read(Path(place)) for place, _ in stored["runs"])
    missing = tuple((set_, scorer, context) for set_, scorer, context in stored["missing"])
    return Grid(runs, missing, tuple(gains_of(runs, missing)))


def remember(key: str | None, grid: Grid, work: Work) -> Grid:
    """Keep what a grid was read from, where all of it is finished; return the grid."""
    if key is not None and not any(run.outages or run.folder is None for run in grid.runs):
        folders = [run.folder.resolve() for run in grid.runs if run.folder is not None]
        runs = [[str(folder), _files(folder)] for folder in folders]
        work.session.store.documents("grids").put_json(key, {"runs": runs, "missing": grid.missing})
    return grid


def _contents(text: str, group: str, kinds: set[str], work: Work) -> list[str] | None:
    """Return a spec with the content of what it names; None for what palate does not know."""
    if isinstance(text, ObjectName):
        return None
    spec = Spec.parse(text)
    point = registered(f"palate.{group}").get(spec.kind)
    if point is None or spec.kind not in kinds or not point.value.startswith("palate."):
        return None
    if not Path(spec.options.get("users", __file__)).is_file():  # a folder, or a name
        return None
    contents, values = [text], [spec.reference or "", *spec.options.values()]
    if spec.kind == "personal":
        folder = Path(values.pop(0)).expanduser()
        facts = json.loads((folder / "palate.json").read_text(encoding="utf-8"))
        if "embedders" not in facts:  # a p-dpo, whose folder names a base model
            return None
        contents += [_hash(file) for file in sorted(folder.iterdir())]
        values += facts["embedders"]
    for value in values:
        if Path(value).is_file() and not value.endswith(".gguf"):
            contents.append(_hash(Path(value)))
        elif not PLAIN.match(value) or (value and Path(value).exists()):
            reference = Reference.parse(value)
            if reference.place == "api":
                return None
            code = work.settings.trust_remote_code
            contents.append(work.session.folder(reference, code=code, adapters=True).content)
    return contents


def _files(folder: Path) -> dict[str, str]:
    return {file.name: _hash(file) for file in sorted(folder.glob("*.json*")) if file.is_file()}


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def _surroundings() -> str:
    """Return the hash of palate's own files, of libraries, and of what decides on a device."""
    source = Path(str(files("palate")))
    parts = sorted(f for f in source.rglob("*.[pj][yi]*") if f.suffix != ".pyc")
    code = [[str(f.relative_to(source)), _hash(f)] for f in parts]
    installed = versions()
    for library in LIBRARIES:
        with suppress(PackageNotFoundError):
            installed[library] = version(library)
    devices = sorted(str(it) for pattern in DEVICES for it in Path("/").glob(pattern))
    machine = [platform.platform(), *devices]
    visible = sorted(it for it in os.environ.items() if it[0].endswith(VARIABLES))
    return digest("surroundings", code, sorted(installed.items()), machine, visible)
