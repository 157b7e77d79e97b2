"""verify_run(folder) → what is wrong with a run, and what nobody can see from its files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, cast

from palate.benchmarks import Dataset, load_benchmark
from palate.errors import RunError, UsageError
from palate.evaluation import summarise
from palate.records import Settings, problem_of
from palate.runs import (
    JOURNAL,
    MANIFEST,
    ROWS,
    SUMMARY,
    Identity,
    Manifest,
    Noise,
    Run,
    Summary,
    Verdicts,
    as_document,
    check_sums,
    noise_of,
    read_content,
    read_manifest,
    versions,
)
from palate.runs.result import SUMS
from palate.runs.run import AGAIN, UNDECIDED
from palate.specs import Spec
from palate.verification.afresh import Rescoring
from palate.verification.rows import by_data, by_journal, by_numbers, checked_rows

OTHER_READING = (
    "the same questions and responses, but other posts, choices, dates or ratings (--posts, --map)"
)
OF_MANIFEST = "details, passes, versions"
UNSEEN = (
    *("oracle", "models", "parts_dropped", "leaks_dropped", "shortfall_words"),
    *("searches_unmatched", "lacking", "split_texts", "notes", "alarms", "members"),
)
"""Fields of a summary that only scoring all rows tells."""
OF_DATA = ("undecided_rows", "bad_rows", "agreed_of")
WITH_STATES = ("personal", "policy")
"""Scorers of which concordance is of margins that the scale of a user's state divides."""
ALIKE = 1e-9
"""Sums differ by less between processors, of themselves."""


class CheckedRun(NamedTuple):
    """What is wrong with a run, each with its file and line where it has one."""

    folder: Path
    problems: list[str]
    rows: int = 0
    unseen: tuple[str, ...] = ()
    """What was not held against anything."""
    without_data: str | None = None
    """The benchmark, where its data were not named."""


def verify_run(
    folder: Path, data: DataOfRuns, rescoring: Rescoring | None = None
) -> CheckedRun | None:
    """Check schema, rows and data of a run, then its figures afresh; None for another kind."""
    problems: list[str] = []
    unseen: list[str] = []
    rows, without = 0, None
    try:
        manifest = read_manifest(folder)
        if manifest.kind != Run.kind:
            return None
        manifest = manifest.model_copy(update={"identity": _identity(folder, manifest)})
        identity = manifest.identity
        pairs = data.of(identity["benchmark"])
        if pairs is None:
            without = identity["benchmark"]
        elif (otherwise := data.read_otherwise(pairs, identity)) is not None:
            raise RunError(f"{folder / MANIFEST}: {otherwise}")
        run, unseen = _read_rows(folder, manifest, pairs, problems)
        rows = len(run.verdicts)
        if not problems:
            problems, more = _hold_figures(run, manifest, pairs, rescoring)
            whole = rescoring is not None and rescoring.rows >= rows  # more than journals tell
            unseen = more if whole else unseen + more
        if not problems:
            unseen += _hold_account(folder, manifest, pairs, problems)
            unseen += [] if check_sums(folder, Run) else [f"{SUMS} (there is none)"]
    except UsageError as error:
        named = isinstance(error, RunError)  # others are of what the manifest says
        problems.append(f"{'' if named else f'{folder / MANIFEST}: '}{error}")
    return CheckedRun(folder, problems, rows, tuple(unseen), without)


def _read_rows(
    folder: Path, manifest: Manifest, pairs: Dataset | None, problems: list[str]
) -> tuple[Run, list[str]]:
    """Read a run and hold its rows against themselves, data and journal; say what was not there."""
    unseen, identity = [], manifest.identity
    summary = read_content(folder, Run.kind, Summary)
    checks = [by_numbers(identity["protocol"])]
    if pairs is None:
        unseen.append("the data (-b)")
    else:
        checks.append(by_data(pairs, identity["seed"], identity["context"]))
    there = (folder / JOURNAL).is_file()
    check = by_journal(folder / JOURNAL, manifest) if there else None
    if check is None:
        unseen.append("the journal" + ("" if there else " (there is none)"))
    checks += [check] if check else []
    verdicts = Verdicts(checked_rows(folder / ROWS, checks, problems))
    if pairs is not None:
        if len(verdicts) < len(pairs.pairs):
            where = f"{folder / ROWS}:{len(verdicts) + 1}"
            problems.append(f"{where}: no row; the data have {len(pairs.pairs):,}")
        if pairs.content_hash != identity["rows"]:
            # What else a row holds is its user's posts, choices, dates and ratings.
            why = "" if problems else f"{OTHER_READING}; "
            problems.insert(0, f"{folder / MANIFEST}: {why}`rows` is no hash of the data's rows")
    if problems:
        return Run(summary, verdicts, folder), unseen
    return Run.read(folder), unseen


def _hold_account(
    folder: Path, manifest: Manifest, pairs: Dataset | None, problems: list[str]
) -> list[str]:
    """Hold what a run says of its data against what was made of them here; say what was not."""
    if pairs is None:
        return []
    if manifest.account is None or pairs.account is None:
        return [f"the account of the data (there is none in {MANIFEST if pairs.account else '-b'})"]
    if not _alike_versions("palate", manifest.versions.get("palate"), versions().get("palate")):
        return ["the account of the data (another version of palate)"]
    there, here = manifest.account.facts(), pairs.account.facts()
    problems += [
        f"{folder / MANIFEST}: account, {about}: {a} – the data give {b}"
        for about in here | there
        if (a := there.get(about, "nothing")) != (b := here.get(about, "nothing"))
    ]
    return []


def _hold_figures(
    run: Run, manifest: Manifest, pairs: Dataset | None, rescoring: Rescoring | None
) -> tuple[list[str], list[str]]:
    """Hold figures against rows, and rows against what is scored afresh; say what was not."""
    folder, identity = cast(Path, run.folder), manifest.identity
    noise = recomputed_noise(run, identity["dtype"])
    data = (pairs.ties, len(pairs.bad_rows), pairs.agreed) if pairs else ()
    of_data = dict(zip(OF_DATA, data, strict=False))
    recomputed, fields = summary_of_rows(identity, run, noise, of_data)
    unseen = [f"of {SUMMARY} {', '.join(fields)}", f"of {MANIFEST} {OF_MANIFEST}"]
    unseen += [name for name in (AGAIN, UNDECIDED) if (folder / name).is_file()]
    problems = figure_problems(folder, manifest.kind, recomputed)
    if rescoring is None or problems:
        return problems, unseen
    if pairs is None:
        raise UsageError(f"without the data (-b {identity['benchmark']}) nothing is scored afresh")
    problems, summary = rescoring.score(run, manifest, pairs)
    if summary is None:
        return problems, ["rows that were not drawn", *unseen]
    replies = [AGAIN] if noise is not None and noise.kind == "asking again" and noise.rows else []
    there, here = manifest.versions, versions()
    other = [
        f"{name} {there.get(name)}, {here.get(name)} here"
        for name in sorted({*there, *here})
        if not _alike_versions(name, there.get(name), here.get(name))
    ]
    return problems or figure_problems(folder, manifest.kind, summary(noise)), replies + other


def _alike_versions(name: str, there: str | None, here: str | None) -> bool:
    if name == "python" and there and here:  # of its patches no number depends
        there, here = (".".join(it.split(".")[:2]) for it in (there, here))
    return there == here


def _identity(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """Return the identity of the run that lies in a folder; raises `RunError` for another's."""
    told = manifest.identity
    try:
        known = Identity.model_validate({k: told[k] for k in Identity.model_fields if k in told})
        Settings(seed=known.seed)
        if not all(isinstance(told.get(name, ""), str) for name in ("since", "until")):
            raise ValueError("since, until: input should be a valid string")
    except ValueError as error:
        raise RunError(f"{folder / MANIFEST}: identity ({problem_of(error)})") from error
    place = manifest.folder(Path())
    if folder.resolve().parts[-3:] != place.parts:
        raise RunError(f"{folder / MANIFEST}: is the manifest of {place.as_posix()}")
    return {**told, **known.model_dump(mode="json")}


def recomputed_noise(run: Run, dtype: str | None) -> Noise | None:
    """Return what rows that were computed twice tell; without them, why there are none."""
    noise = run.summary.noise
    if noise is None:
        return None
    dtype = dtype if noise.kind == "rounding" else None
    if run.again is None:
        return Noise(kind=noise.kind, dtype=dtype, note=noise.note)
    return noise_of(run.verdicts, run.again, noise.kind, dtype)


def summary_of_rows(
    identity: Mapping[str, Any], run: Run, noise: Noise | None, data: Mapping[str, Any]
) -> tuple[Summary, list[str]]:
    """Return what rows (and `data` fields) give of a summary, and the fields merely believed."""
    summary, kind = run.summary, Spec.parse(identity["scorer"]).kind
    recomputed = summarise(
        run.verdicts,
        **{name: identity[name] for name in ("benchmark", "scorer", "context", "protocol", "seed")},
        **{**{name: getattr(summary, name) for name in (*UNSEEN, *OF_DATA)}, **data},
        noise=noise,
        log_odds=summary.calibration is not None,
    )
    unseen = [*UNSEEN, *(name for name in OF_DATA if name not in data)]
    if summary.calibration is None:
        unseen.append("whether there is a calibration")
    if kind in WITH_STATES and run.verdicts.mirrored:
        unseen.append("concordance")
        recomputed = recomputed.model_copy(update={"concordance": summary.concordance})
    return recomputed, unseen


def figure_problems(folder: Path, kind: str, recomputed: Summary) -> list[str]:
    """Return the lines of `summary.json` that are not those of a recomputed summary."""
    document = as_document(kind, recomputed.model_dump(mode="json"))
    wanted = json.dumps(document, indent=1, ensure_ascii=False).split("\n")
    written = (folder / SUMMARY).read_text(encoding="utf-8").rstrip("\n").split("\n")
    both = enumerate(zip_longest(written, wanted, fillvalue=""), 1)
    return [
        f"{folder / SUMMARY}:{number}: {here.strip()} – the rows give {there.strip()}"
        for number, (here, there) in both
        if here != there and not _alike_lines(here, there)
    ]


def _alike_lines(here: str, there: str) -> bool:
    (name, _, a), (other, _, b) = (line.strip(" ,").rpartition(" ") for line in (here, there))
    try:
        return name == other and math.isclose(float(a), float(b), rel_tol=ALIKE)
    except ValueError:
        return False


BUNDLED = "tasting"
OPTIONS = {
    "split": "--split",
    "limit": "--limit",
    "since": "--since",
    "until": "--until",
    "columns": "--map",
    "order": "--order-as-in-file",
    "revision": "--revision",
    "mirrors": "--mirrors",
    "agreed": "--agreed",
    "seed": "--runs-seed",
}
"""Fields of an identity that say which rows were read and how, by the option that asks for it."""


class DataOfRuns:
    """Benchmarks by name, read in one way; the bundled one is always among them."""

    def __init__(self, datasets: Iterable[Dataset] = (), seed: int = 0) -> None:
        self._by_name = {data.name: data for data in datasets}
        self.seed = seed
        """The seed that runs are to have: it draws subsets, strangers and orders."""

    def of(self, name: str) -> Dataset | None:
        """Return the rows of a benchmark; None where it was not named."""
        if name == BUNDLED and name not in self._by_name:
            self._by_name[name] = load_benchmark(name, seed=self.seed)
        return self._by_name.get(name)

    def read_otherwise(self, pairs: Dataset, identity: Mapping[str, Any]) -> str | None:
        """Return how a run chose its rows otherwise than verify was told to; None where alike."""
        here = pairs.how_read | {"seed": self.seed}
        other = [
            name for name in OPTIONS if (identity.get(name) or None) != (here.get(name) or None)
        ]
        theirs, ours = (
            ", ".join(option for name in other for option in _typed(name, values.get(name)))
            for values in (identity, here)
        )
        why = f"reads its data by {theirs}, verify by {ours}; it takes the same options"
        return why if other else None


def _typed(name: str, value: Any) -> list[str]:
    """Return the options that say this, as they are typed."""
    if isinstance(value, Mapping) and value:
        return [f"{OPTIONS[name]} {field}={column}" for field, column in sorted(value.items())]
    if name == "order" and value:
        return [OPTIONS[name]]
    return [f"{OPTIONS[name]} {value}" if value or value == 0 else f"no {OPTIONS[name]}"]
