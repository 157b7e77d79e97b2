"""The words: one meaning a term, one class a name, no banned word or long-lived empty name.

    python tests/glossary.py
    python tests/glossary.py --sentences 10 --seed 1

The first checks; the second prints sentences of the docs, each beside the terms that it uses.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
MOST_ROWS = 90
MOST_LINES = 5
NAMES = frozenset({"found", "one", "own", "said", "kept", "asked", "ours", "theirs"})
"""They say nothing of what they hold, so they may live for five lines at most."""
VARIABLES = NAMES | {"each", "made", "shown", "it", "at"}
"""Fields and functions may have the last five: `slate.shown`, `pools.at(row)`."""
OPENINGS = ("What", "Who", "How", "Whose")
"""Words with which no docstring of a module opens: it names a thing."""
BANNED = re.compile(
    r"contestants?|foret(?:ell?|old)\w*|unmoved|speakers|mates|users who lose|who loses"
    r"|less (?:the )?luck|without the luck|bend the margins|goe?s? unseen"
    r"|less what it is for|for want of|after the stroke|dearest|derangements?",
    re.IGNORECASE,
)
HISTORY = frozenset({"decisions.md", "glossary.md"})
SCOPES = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


def rows() -> Iterator[tuple[list[str], str]]:
    """Yield the terms of every row of the glossary, and their meaning."""
    for line in GLOSSARY.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells[0] != "term":
            yield [term.strip(" `") for term in re.split("[,;]", cells[0])], cells[1]


def pages() -> list[Path]:
    """Return the pages whose words are checked; what was decided keeps the words of its day."""
    docs = (path for path in ROOT.glob("docs/**/*.md") if path.name not in HISTORY)
    front = (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))
    return [*front, *sorted(docs), *sorted(ROOT.glob("studies/*/README.md"))]


def glossary_faults() -> Iterator[str]:
    """Yield what is wrong with the table itself."""
    listed = [terms for terms, _ in rows()]
    every = [term.lower() for terms in listed for term in terms]
    if len(listed) > MOST_ROWS:
        yield f"glossary: {len(listed)} rows (limit {MOST_ROWS})"
    yield from (f"glossary: {term!r} is there twice" for term in {*every} if every.count(term) > 1)


def word_faults(path: Path) -> Iterator[str]:
    """Yield the banned words of a page or a source file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for match in re.finditer(rf"\b(?:{BANNED.pattern})\b", line, re.IGNORECASE):
            yield f"{path.relative_to(ROOT)}:{number}: {match[0]!r} (see docs/glossary.md)"


def parts(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, and the scopes in it without what these hold."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting += ast.iter_child_nodes(node)


def bindings(scope: ast.AST) -> dict[str, int]:
    """Return the empty names that a scope binds, each with its first line."""
    first: dict[str, int] = {}
    for node in parts(scope):
        stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        name = node.arg if isinstance(node, ast.arg) else node.id if stored else ""
        if name in (NAMES if isinstance(scope, ast.ClassDef | ast.Module) else VARIABLES):
            first[name] = min(node.lineno, first.get(name, node.lineno))
    return first


def last_use(scope: ast.AST, name: str) -> int:
    """Return the last line of a scope that uses a name, scopes inside included."""
    last = 0
    for node in parts(scope):
        if isinstance(node, ast.Name | ast.arg) and name in (
            vars(node).get("id"),
            vars(node).get("arg"),
        ):
            last = max(last, node.end_lineno or 0)
        elif isinstance(node, SCOPES) and name not in bindings(node):
            last = max(last, last_use(node, name))
    return last


def name_faults(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield empty names that live too long; a field or a function always does."""
    for scope in (node for node in ast.walk(tree) if isinstance(node, (ast.Module, *SCOPES))):
        for name, first in bindings(scope).items():
            lines = last_use(scope, name) - first
            if lines > MOST_LINES or isinstance(scope, ast.ClassDef | ast.Module):
                where = f"{path.relative_to(ROOT)}:{first}"
                yield f"{where}: name {name!r} by what it holds (in use for {lines} lines)"
        named = getattr(scope, "name", "")
        if named.strip("_") in NAMES:
            yield f"{path.relative_to(ROOT)}:{scope.lineno}: {named!r} says nothing"


def source_faults() -> Iterator[str]:
    """Yield what is wrong with the names and words of the source."""
    classes: Mapping[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield from name_faults(path, tree)
        yield from word_faults(path)
        first = (ast.get_docstring(tree) or "").split(maxsplit=1)[0]
        if first in OPENINGS:
            yield f"{path.relative_to(ROOT)}:1: {first!r}: name the thing that the module holds"
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    yield from (
        f"class {name} is there {len(where)} times: {', '.join(where)}"
        for name, where in classes.items()
        if len(where) > 1
    )


def sentences() -> list[str]:
    """Return the sentences of the pages, without blocks, tables, lists of links and headings."""
    listed = []
    for path in pages():
        text = re.sub(
            r"```.*?```|<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        for line in text.splitlines():
            prose = re.sub(r"\]\([^)]*\)|[*\[]", "", line.lstrip("- "))
            if line and line[0] not in "|#<!>" and not line.startswith("    "):
                listed += [s for s in re.split(r"(?<=[.!?])\s+(?=[A-Z`])", prose) if s[-1:] == "."]
    return listed


def print_sentences(n: int, seed: int) -> None:
    """Print sentences of the docs, each beside the glossary's terms in it."""
    meanings = {term: meaning for terms, meaning in rows() for term in terms}
    for sentence in random.Random(seed).sample(sentences(), n):
        used = [
            term
            for term in meanings
            if re.search(rf"\b{re.escape(term)}s?\b", sentence, re.IGNORECASE)
        ]
        words = len(sentence.split())
        sys.stdout.write(fill(f"{sentence} ({words} words)", 98) + "\n")
        for term in used:
            sys.stdout.write(fill(f"{term}: {meanings[term]}", 98, initial_indent="    ") + "\n")
        sys.stdout.write("\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, metavar="N", help="print sentences of the docs")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.sentences:
        print_sentences(given.sentences, given.seed)
        return 0
    faults = [*glossary_faults(), *source_faults()]
    faults += [fault for path in pages() for fault in word_faults(path)]
    sys.stdout.write("\n".join(faults or ["words: all as the glossary has them"]) + "\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
