"""Evaluate a scripted scorer on a million rows and say what memory and time it takes.

    python tools/million.py [--rows 1000000] [--context none] [--judge] [--slates-mib 128] [--sum]

Peak memory is what the kernel counts (VmHWM), printed by phase; the pairs themselves, which are the
user's data and are loaded once, are told apart. `--sum` prints one JSON line at the end only.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import palate.execution.plan
from palate.benchmarks import Dataset
from palate.comparison import evaluate
from palate.records import Judgement, Post, PreferencePair, ScorerInfo, Scores, Slate

USERS = 9_973
EVERY = 50_000
MIB = 2**20


class Scripted:
    """A cheap score of question, parts shown and response; told to depend on its batch."""

    info = ScorerInfo(fingerprint="scripted")

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield numbers that differ between responses and users."""
        for k, slate in enumerate(slates):
            told = len(slate.question[0].content) + sum(len(part.text) for part in slate.shown)
            values = ((len(text) * 7919 + ord(text[-1]) * told) % 101 / 7 for text in
                      slate.candidates)  # fmt: skip
            yield k, Scores(values=tuple(values))


class ScriptedJudge:
    """The same as an exact judge with a raw reply per order."""

    info = ScorerInfo(fingerprint="scripted judge", exact=True, pairs_only=True)

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        """Yield margins of both orders."""
        for k, slate in enumerate(slates):
            first, second = (len(text) * 7919 % 101 / 7 for text in slate.candidates)
            orders = (first - second, first - second + 0.25)
            yield k, Judgement(margin=sum(orders) / 2, orders=orders, raw=("A is better", "B"))


def pairs(n: int, posts: int) -> Dataset:
    """Return rows of a few thousand users; a user's rows share their posts."""
    written = {
        user: tuple(Post(id=f"{user}-{k}", text=f"I wrote {user * k % 997} words on {k}.")
                    for k in range(posts))
        for user in range(USERS if posts else 0)
    }  # fmt: skip
    rows = (
        PreferencePair(
            id=f"row-{k}",
            user_id=f"user-{k % USERS}",
            text=f"What of the thing number {k}?",
            profile=written.get(k % USERS, ()),
            chosen=f"answer {k * 17 % 1_000_003} " + "x" * (k % 13),
            rejected=f"reply {k * 31 % 1_000_003} " + "y" * (k % 11),
        )
        for k in range(n)
    )
    return Dataset("scripted", tuple(rows)).select()


def status(name: str) -> int:
    """Return one of this process's figures in bytes, such as VmRSS or VmHWM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this script reads /proc/self/status, so it needs Linux")


class Watch:
    """Notes memory and the time at which rows were done."""

    def __init__(self, base: int, quiet: bool) -> None:
        self.base, self.quiet = base, quiet
        self.started = time.monotonic()
        self.points: list[tuple[float, int, int]] = []
        self.last_row = 0.0

    def started_by(self, label: str) -> Watch:
        """Watch a piece of work."""
        del label
        return self

    def __call__(self, done: int, total: int) -> None:
        """Take note as a progress callback."""
        if self.points and done - self.points[-1][1] < EVERY and done != total:
            return
        self.last_row = time.monotonic() - self.started
        self.points.append((self.last_row, done, status("VmRSS") - self.base))
        if not self.quiet:
            seconds, _, more = self.points[-1]
            sys.stdout.write(f"{seconds:8.1f} s  {done:>9,} rows  {more / MIB:+8.1f} MiB\n")
            sys.stdout.flush()


def measured(pair_set: Dataset, args: argparse.Namespace, root: Path) -> dict[str, float]:
    """Run once, and once more from the journal alone."""
    gc.collect()
    base = status("VmRSS")
    found: dict[str, float] = {"rows": len(pair_set.pairs), "pairs_mib": base / MIB}
    scorer = ScriptedJudge() if args.judge else Scripted()
    for turn in ("first", "again"):
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts anew
        watch = Watch(base, args.sum)
        run = evaluate(
            pair_set, scorer, args.context, root=root, name="scripted", start=watch.started_by
        )
        whole = time.monotonic() - watch.started
        rss = [more for _, _, more in watch.points]
        found |= {
            f"{turn}_s": whole,
            f"{turn}_summary_s": whole - watch.last_row,
            f"{turn}_peak_mib": (status("VmHWM") - base) / MIB,
            f"{turn}_growth_while_running_mib": (rss[-1] - rss[0]) / MIB,
        }
        del run
        gc.collect()
    journal = next(root.rglob("journal.jsonl"))
    found["journal_mib"] = journal.stat().st_size / MIB
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--context", default="none")
    parser.add_argument("--posts", type=int, default=0, help="posts of each user")
    parser.add_argument("--judge", action="store_true", help="an exact judge, not a scorer")
    parser.add_argument("--slates-mib", type=int, help="of slates kept from planning, not 128 MiB")
    parser.add_argument("--sum", action="store_true", help="one JSON line only")
    args = parser.parse_args()
    if args.slates_mib is not None:
        palate.execution.plan.KEPT_BYTES = args.slates_mib * MIB
    evaluate(pairs(10, 1), "random", "profile:1", root=None)  # load what a run needs
    pair_set = pairs(args.rows, args.posts)
    with tempfile.TemporaryDirectory() as root:
        found = measured(pair_set, args, Path(root))
    if args.sum:
        sys.stdout.write(json.dumps(found) + "\n")
        return 0
    for name, value in found.items():
        sys.stdout.write(f"{name:>34}  {value:,.1f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
