"""How near endpoint scorers come to the rate that latency and concurrency allow.

    python tools/bench_http.py [--responses 12800] [--latency 0.05] [--concurrency 64] [--turns 3]

A server in a process of its own answers every request after a fixed time.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass

from fixed_latency import serve
from server_process import served

from palate.records import Message, Part, Scorer, Slate
from palate.scorers import build_scorer
from palate.session import Session

SPECS = {
    "rating": "rating:api:m?base_url={url}/v1&concurrency={concurrency}",
    "classifier": "classifier:api:m?base_url={url}&server=vllm&concurrency={concurrency}",
}


@dataclass(frozen=True)
class HttpBench:
    """One measurement."""

    scorer: str
    requests: int
    seconds: float
    rate: float
    """Requests, each scoring one response, per second."""
    ideal: float
    """Concurrency ÷ latency."""
    cpu_ms: float
    """This process's time on a core, per request."""

    @property
    def share(self) -> float:
        """Rate ÷ ideal."""
        return self.rate / self.ideal


def bench_http(
    scorer: str = "rating", *, responses: int = 12_800, latency: float = 0.05, concurrency: int = 64
) -> HttpBench:
    """Score responses through a scorer on a server with a fixed latency, two to a slate."""
    slates = [_slate(k) for k in range(responses // 2)]
    command = [__file__, "--serve", str(latency)]
    with served(command) as server, Session() as session:
        spec = SPECS[scorer].format(url=server.url, concurrency=concurrency)
        made = build_scorer(spec, session)
        assert isinstance(made, Scorer)
        started, cpu = time.perf_counter(), time.process_time()
        found = sum(value is not None for _, s in made.score(slates) for value in s.values)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert found == 2 * len(slates), f"{found} of {2 * len(slates)} responses were scored"
    return HttpBench(
        scorer, found, seconds, found / seconds, concurrency / latency, 1000 * cpu / found
    )


def _slate(k: int) -> Slate:
    posts = [f"Post {n} of user {k}: " + "what I cooked and why I liked it, " * 6 for n in range(5)]
    return Slate(
        question=(Message(role="user", content=f"What shall I cook tonight, after day {k}?"),),
        shown=tuple(Part(kind="post", text=text, rank=n) for n, text in enumerate(posts)),
        candidates=(f"{k} dumplings, " + "slowly " * 80, f"{k} salads, " + "quickly " * 80),
    )


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--serve", type=float, metavar="LATENCY", help=argparse.SUPPRESS)
    parser.add_argument("--responses", type=int, default=12_800)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    if given.serve is not None:
        asyncio.run(serve(given.serve))
        return
    for _ in range(given.turns):
        for name in SPECS:
            measured = bench_http(
                name,
                responses=given.responses,
                latency=given.latency,
                concurrency=given.concurrency,
            )
            sys.stdout.write(
                f"{name:<11}{measured.requests:,} requests in {measured.seconds:.2f} s: "
                f"{measured.rate:,.0f}/s, {measured.share:.1%} of {measured.ideal:,.0f}/s; "
                f"{measured.cpu_ms:.2f} ms of one core each\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
