"""Run the demo's grid as three kinds of processor would, and print the findings side by side.

    python tools/processors.py [--dtype bfloat16] [--keep FOLDER]

torch, oneDNN and MKL are told which instructions to use: all that this processor has, AVX-512
without matrix tiles, and AVX2. Sums are then made in another order, which is what another processor
would do. Without `--dtype` the demo itself runs, and the tutorial's block of its output is compared
too. Exits 1 where a line differs; times are left out of the comparison.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from newcomer import TIMES, not_printed

from palate.cli.demo import CONTEXTS, COUPLES, LANGUAGE_MODELS, QUICK

ROOT = Path(__file__).resolve().parents[1]
PROCESSORS: Mapping[str, Mapping[str, str]] = {
    "as it is": {},
    "AVX-512": {
        "ATEN_CPU_CAPABILITY": "avx512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
    },
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
}
"""By name, what tells the libraries which instructions to use."""
RULE = "─" * 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the grid once for each processor; return 1 where what they print differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--keep", type=Path, help="a folder for the runs, which is kept")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="palate-processors-") as temporary:
        folder = options.keep or Path(temporary)
        outputs = {name: run(folder / name, name, options.dtype) for name in PROCESSORS}
    screens = {name: lines_of(output) for name, output in outputs.items()}
    sys.stdout.write("\n".join(side_by_side(screens)) + "\n\n")
    apart = list(differences(screens))
    if options.dtype is None:
        block = demo_block((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
        apart += [
            f"tutorial, {name}: not printed: {line}"
            for name, output in outputs.items()
            for line in not_printed(block, output)
        ]
    sys.stdout.write("\n".join(apart or ["equal, word for word (times apart)"]) + "\n")
    return 1 if apart else 0


def run(folder: Path, name: str, dtype: str | None) -> str:
    """Return what the demo, or its grid in this dtype, prints on such a processor."""
    folder.mkdir(parents=True, exist_ok=True)
    if dtype is None:
        command = ["demo", "-o", "runs/demo", "--page", "demo.html"]
    else:
        scorers = [word for spec in (*QUICK, *LANGUAGE_MODELS) for word in ("-s", spec)]
        contexts = [word for spec in CONTEXTS for word in ("-c", spec)]
        command = ["evaluate", "-b", "tasting", "--limit", str(COUPLES), *scorers, *contexts]
        command += ["--dtype", dtype, "-o", "runs"]
    sys.stderr.write(f"{name}: palate {command[0]} …\n")
    finished = subprocess.run(
        [sys.executable, "-m", "palate", *command],
        cwd=folder,
        env={**os.environ, **PROCESSORS[name]},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return finished.stdout


def lines_of(output: str) -> list[str]:
    """Return an output's lines without times.

    >>> lines_of("first page: demo.html (52 s, 35 s of it setting up)")
    ['first page: demo.html']
    """
    return [TIMES.sub("", line).rstrip() for line in output.splitlines()]


def rows_of(lines: Sequence[str]) -> dict[str, str]:
    """Return the rows of the last screen: by scorer, what stands behind its name.

    >>> rows_of(["scorer  own", " " + RULE, "lift    0.6  yes", "", "lift knows."])
    {'lift': '0.6  yes'}
    """
    last = max(k for k, line in enumerate(lines) if RULE in line)
    rows = {}
    for line in lines[last + 1 :]:
        if not line.strip():
            break
        scorer, figures = line.strip().split("  ", maxsplit=1)
        rows[scorer] = figures.strip()
    return rows


def side_by_side(screens: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Return the rows of each scorer one below another, a line for each processor."""
    rows = {name: rows_of(lines) for name, lines in screens.items()}
    for scorer in dict.fromkeys(scorer for table in rows.values() for scorer in table):
        yield scorer
        for name, table in rows.items():
            yield f"  {name:<10}{table.get(scorer, '–')}"


def differences(screens: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Return each line that a processor prints and the first one does not, and the reverse."""
    (first, expected), *others = screens.items()
    for name, lines in others:
        yield from (f"{name} alone: {line}" for line in lines if line not in expected)
        yield from (f"{first}, not {name}: {line}" for line in expected if line not in lines)


def demo_block(text: str) -> str:
    """Return the tutorial's block of the demo's output.

    >>> demo_block("```text\\nfirst page: demo.html (1 s)\\n```\\nProse.")
    '```text\\nfirst page: demo.html (1 s)\\n```\\n'
    """
    start = text.index("```text\nfirst page")
    return text[start : text.index("\n```\n", start) + len("\n```\n")]


if __name__ == "__main__":
    sys.exit(main())
