"""Read files of rows of a given size, and print what memory it takes to read and to load them.

    python tools/big_files.py [--megabytes 1000] [--files NAME …] [--limit-mib 500]

Each file is read in a process of its own, row by row; a tenth of its rows are loaded in another,
which holds them. Peak memory is what the kernel counts (VmHWM). The files lie in a new folder below
`--folder`, one at a time, and are taken away. Exits 1 where reading takes more than the limit.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from palate.data import load_rows, read_rows

POSTS, WORDS = 5, 70
NAMES = ("rows.csv", "rows.csv.gz", "rows.json", "object.json", "rows.jsonl")
AROUND = {"rows.json": ("[", ", ", "]"), "object.json": ('{"rows": [', ", ", "]}"),
          "rows.jsonl": ("", "\n", "\n")}  # fmt: skip
MIB = 2**20


def peak_mib() -> float:
    """Return the most memory that this process has held."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(match[1]) / 1024 if match else float("nan")


def rows(size: int) -> Iterator[dict[str, Any]]:
    """Yield rows of the contract until they are about so many bytes."""
    stream = random.Random(0)
    known = [f"w{k}" for k in range(5_000)]
    texts = [" ".join(stream.choices(known, k=WORDS)) for _ in range(2_000)]
    written, k = 0, 0
    while written < size:
        row = {
            "id": f"r{k}", "user_id": f"u{k % 997}", "question": f'"Which?" {k}',
            "chosen": f"Yes,\n{stream.choice(texts)}", "rejected": stream.choice(texts),
            "profile": json.dumps(
                [{"id": f"p{k}-{j}", "text": stream.choice(texts)} for j in range(POSTS)]
            ),
        }  # fmt: skip
        yield row
        written += sum(len(cell) + 12 for cell in row.values())
        k += 1


def write(path: Path, size: int) -> None:
    """Write rows in the format of the name, about so many bytes before packing."""
    packed = path.suffix == ".gz"
    opened: Callable[..., Any] = gzip.open if packed else open  # type: ignore[assignment]
    level = {"compresslevel": 1} if packed else {}
    with opened(path, "wt", encoding="utf-8", newline="", **level) as file:
        if path.name not in AROUND:
            writer = csv.writer(file)
            for k, row in enumerate(rows(size)):
                if not k:
                    writer.writerow(row)
                writer.writerow(row.values())
            return
        start, between, end = AROUND[path.name]
        file.write(start)
        for k, row in enumerate(rows(size)):
            file.write(
                between * bool(k) + json.dumps(row | {"profile": json.loads(row["profile"])})
            )
        file.write(end)


def measure(what: str, path: Path) -> None:
    """Read or load a file, and print what it took as JSON."""
    before, started = peak_mib(), time.process_time()
    if what == "read":
        n = sum(1 for _, row in read_rows(path) if isinstance(row, dict))
    else:
        loaded = load_rows(path)
        n = len(loaded.rows)
    taken = {"rows": n, "before_mib": before, "peak_mib": peak_mib()}
    sys.stdout.write(json.dumps(taken | {"seconds": time.process_time() - started}) + "\n")


def measured(what: str, path: Path) -> dict[str, float]:
    """Return what another process prints of itself."""
    command = [sys.executable, __file__, "--measure", what, str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    taken: dict[str, float] = json.loads(done.stdout)
    return taken


def main() -> int:
    """Write, read and load a file of each format; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--files", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--limit-mib", type=float, default=500)
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure[0], Path(given.measure[1]))
        return 0
    size, highest = int(given.megabytes * 1e6), 0.0
    sys.stdout.write(
        "| file | MB | rows | bytes a row | reading: peak MiB | before | MB/s | loaded: KiB |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        for path in (Path(name) / name_ for name_ in given.files):
            write(path, size)
            megabytes = path.stat().st_size / 1e6
            read = measured("read", path)
            write(path, size // 10)
            load = measured("load", path)
            path.unlink()
            highest = max(highest, read["peak_mib"])
            a_row = (load["peak_mib"] - load["before_mib"]) * 1024 / load["rows"]
            cells = [
                path.name, f"{megabytes:.0f}", f"{read['rows']:,}", f"{size / read['rows']:.0f}",
                f"{read['peak_mib']:.0f}", f"{read['before_mib']:.0f}",
                f"{megabytes / read['seconds']:.0f}", f"{a_row:.1f}",
            ]  # fmt: skip
            sys.stdout.write(f"| {' | '.join(cells)} |\n")
            sys.stdout.flush()
    sys.stdout.write(f"\nhighest peak of reading: {highest:.0f} MiB (limit {given.limit_mib:g})\n")
    return int(highest > given.limit_mib)


if __name__ == "__main__":
    sys.exit(main())
