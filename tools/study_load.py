"""Load on a study's server: raters post at once, the server is killed, nothing may be lost.

    python tools/study_load.py [--raters 50] [--per-pair 10] [--kills 2]
    python tools/study_load.py --answer STUDY

Each rater goes through the whole study by HTTP and posts an answer until it is acknowledged, some
twice and some changed. Meanwhile the server is killed (-9) and started again on the same port. At
the end what is stored must be what was acknowledged: each answer once, none lost, none foreign.
With `--answer` the raters of a planned study answer all, by chance, and nothing is killed.
"""

from __future__ import annotations

import argparse
import csv
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from palate.benchmarks import load_benchmark
from palate.seeding import unit
from palate.study import DIMENSIONS, Study, read_study
from palate.study.answers import read_answers
from palate.study.planning import StudyOptions, plan_study

PAUSE = 0.05
CHOICES = ("a", "b", "same", "skip")
HEADERS = {"Content-Type": "application/x-www-form-urlencoded"}


class Server:
    """`palate study serve` on one port, however often it is killed."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        words = ("study", "serve", str(folder), "--port", str(self.port))
        self._command = (sys.executable, "-m", "palate", *words)
        self.down = 0.0
        self.start()

    def start(self) -> None:
        """Start it, and wait until it replies."""
        start = time.monotonic()
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended: {' '.join(self._command)}")
            connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                connection.request("GET", "/")
                connection.getresponse()
                break
            except (OSError, HTTPException):
                time.sleep(PAUSE)
            finally:
                connection.close()
        self.down += time.monotonic() - start

    def kill(self) -> None:
        """Kill it as a power cut would."""
        self._process.kill()
        self._process.wait()


class LoadingRater:
    """A rater who answers all, and notes what was acknowledged."""

    def __init__(self, study: Study, place: int, rater: str, link: str, port: int) -> None:
        self._study, self._place, self._rater, self._port = study, place, rater, port
        self._path = urlsplit(link).path
        self.acknowledged: dict[str, str] = {}
        self.posts = self.repeats = self.broken = 0

    def run(self) -> None:
        """Go through the study."""
        self._post("consent", {})
        traits = self._study.plan.traits
        self._post("about", {f"trait-{k}": trait.options[0] for k, trait in enumerate(traits)})
        words = self._study.plan.texts
        asks = {item.asks for item in self._study.items.values()}
        for n, rated in ((1, "better" in asks), (2, False)):
            expected = words[f"practice_{n}_expected"]
            self._post(f"practice/{n}", {"choice": expected, **(ratings(3) if rated else {})})
        for n, entry in enumerate(self._study.plan.lists[self._place], 1):
            first = unit("load", self._rater, entry.item)
            self._answer(n, first)
            if first < 0.2:  # another answer
                self._answer(n, (first + 0.25) % 1)
            elif first > 0.8:  # the same once more
                self._answer(n, first)
                self.repeats += 1

    def _answer(self, n: int, drawn: float) -> None:
        entry = self._study.plan.lists[self._place][n - 1]
        rated = self._study.items[entry.item].asks == "better"
        choice = CHOICES[int(4 * drawn)]
        self._post(
            f"items/{n}", {"choice": choice, **(ratings(1 + int(5 * drawn)) if rated else {})}
        )
        sides = dict(zip("ba" if entry.swapped else "ab", ("first", "second"), strict=True))
        self.acknowledged[entry.item] = sides.get(choice, choice)

    def _post(self, step: str, fields: Mapping[str, str]) -> None:
        """Post until it is acknowledged."""
        while True:
            self.posts += 1
            connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
            try:
                connection.request("POST", f"{self._path}/{step}", urlencode(fields), HEADERS)
                status = connection.getresponse().status
            except (OSError, HTTPException):
                self.broken += 1
                time.sleep(20 * PAUSE)
                continue
            finally:
                connection.close()
            if status != 303:
                raise RuntimeError(f"{self._rater}, {step}: the server answered {status}")
            return


def ratings(score: int) -> dict[str, str]:
    """Return the same rating of everything."""
    return {f"{name}_{side}": str(score) for name in DIMENSIONS for side in "ab"}


def begin(folder: Path, study: Study) -> tuple[Server, dict[str, LoadingRater]]:
    """Serve a study, and return its raters by their names."""
    server = Server(folder)
    with (folder / "links.csv").open(encoding="utf-8") as file:
        links = {row["rater"]: row["link"] for row in csv.DictReader(file)}
    raters = {
        rater: LoadingRater(study, place, rater, link, server.port)
        for place, (rater, link) in enumerate(links.items())
    }
    return server, raters


def main() -> int:
    """Run it and print what came of it; 1 where an answer is lost, foreign or there twice."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name, default in (("raters", 50), ("per-pair", 10), ("kills", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--answer", type=Path, help="a planned study whose raters answer")
    given = parser.parse_args()
    if given.answer is not None:
        server, raters = begin(given.answer, read_study(given.answer))
        for rater in raters.values():
            rater.run()
        server.kill()
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "study"
        options = StudyOptions(raters=given.raters, per_pair=given.per_pair)
        study = plan_study(load_benchmark("tasting"), options, folder)
        study.write()
        server, raters_by_name = begin(folder, study)
        raters = list(raters_by_name.values())
        total = sum(map(len, study.plan.lists))
        server.down, start = 0.0, time.monotonic()
        with ThreadPoolExecutor(len(raters)) as pool:
            running = [pool.submit(rater.run) for rater in raters]
            for kill in range(given.kills):
                while sum(len(it.acknowledged) for it in raters) < total * (kill + 1) / (
                    given.kills + 1
                ) and not any(each.done() and each.exception() for each in running):
                    time.sleep(PAUSE)
                server.kill()
                server.start()
            for each in running:
                each.result()
        took = time.monotonic() - start - server.down
        server.kill()
        rows = read_answers(folder)
    stored = Counter((row.rater, row.item) for row in rows)
    choices = {(row.rater, row.item): row.choice for row in rows}
    acknowledged = {
        (rater, item): choice
        for rater, client in raters_by_name.items()
        for item, choice in client.acknowledged.items()
    }
    counts = {
        "raters": len(raters),
        "acknowledged answers": len(acknowledged),
        "stored": len(rows),
        "lost, or another one": sum(choices.get(at) != it for at, it in acknowledged.items()),
        "twice": sum(n > 1 for n in stored.values()),
        "foreign": len(stored.keys() - acknowledged.keys()),
        "changed": sum(row.changed > 0 for row in rows),
        "kills": given.kills,
        "posts": sum(rater.posts for rater in raters),
        "posts without a reply": sum(rater.broken for rater in raters),
    }
    counts["posts a second"] = round((counts["posts"] - counts["posts without a reply"]) / took)
    sys.stdout.writelines(f"{name:24} {n:8,}\n" for name, n in counts.items())
    wrong = ("lost, or another one", "twice", "foreign")
    return int(any(counts[name] for name in wrong) or len(acknowledged) != total)


if __name__ == "__main__":
    sys.exit(main())
