"""Build own-text pairs from a LaMP-shaped file of a given size, and print what memory they take.

    python tools/own_text_memory.py [--megabytes 1000] [--folder FOLDER] [--limit-mib 300]

The file and what is built from it lie in a new folder below FOLDER, and are taken away at the end.
Peak memory is what the kernel counts for this process (VmHWM). Exits 1 above the limit.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from palate.construction import build_own_text

WORDS, SHARED = 5_000, 500
ITEMS, ITEM_WORDS = 40, 300
MIB = 2**20


def peak_mib() -> float:
    """Return the most memory that this process has held."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(match[1]) / 1024 if match else float("nan")


def words(stream: random.Random, n: int) -> str:
    """Return so many made-up words."""
    return " ".join(f"w{stream.randrange(WORDS)}" for _ in range(n))


def questions(size: int) -> Iterator[tuple[str, str, int]]:
    """Yield (question, output, bytes) until there are so many bytes; three users share an input."""
    written, k = 0, 0
    while written < size:
        stream = random.Random(k)
        article = words(random.Random(f"article {k // 3}"), ITEM_WORDS)
        profile = [
            {
                "id": f"{k}-{j}", "title": words(stream, 9), "date": f"2015-01-{j % 28 + 1:02d}",
                # Some articles are everybody's, so that adapt rows have other authors too.
                "text": words(random.Random(f"shared {stream.randrange(SHARED)}") if j % 8 == 0
                              else stream, ITEM_WORDS),
            }
            for j in range(ITEMS)
        ]  # fmt: skip
        question = {
            "id": str(k), "user_id": f"u{k}", "profile": profile, "date": "2016-01-01",
            "input": f"Generate a headline for the following article: {article}",
        }  # fmt: skip
        line = json.dumps(question)
        yield line, json.dumps({"id": str(k), "output": words(stream, 9)}), len(line)
        written += len(line)
        k += 1


def write(folder: Path, size: int) -> Path:
    """Write questions and outputs in LaMP's layout."""
    path = folder / "dev_questions.json"
    outputs = folder / "dev_outputs.json"
    with path.open("w", encoding="utf-8") as file, outputs.open("w", encoding="utf-8") as golds:
        file.write("[")
        golds.write('{"task": "LaMP_4", "golds": [')
        for k, (question, gold, _) in enumerate(questions(size)):
            file.write(", " * bool(k) + question)
            golds.write(", " * bool(k) + gold)
        file.write("]")
        golds.write("]}")
    return path


def main() -> int:
    """Write, build, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--limit-mib", type=float, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        path = write(folder, int(given.megabytes * 1e6))
        before, started = peak_mib(), time.process_time()
        build = build_own_text(path, folder / "pairs.jsonl.gz", layout="lamp", root=folder)
        result = {
            "megabytes": round(path.stat().st_size / 1e6), "before_mib": round(before),
            "peak_mib": round(peak_mib()), "seconds": round(time.process_time() - started),
            "test_rows": build.rows["test"]["rows"], "adapt_rows": build.rows["adapt"]["rows"],
        }  # fmt: skip
    sys.stdout.write(json.dumps(result) + "\n")
    return int(result["peak_mib"] > given.limit_mib)


if __name__ == "__main__":
    sys.exit(main())
