"""Where a forward's time goes: launches a layer, bytes moved, and shares of products and attention.

One thread of a CPU, or an accelerator's own kernels. What only names memory anew (views) is free.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from bench_prefix import load_model
from bench_work import BenchCase, BenchWork, draw_work

from palate.engines import LocalModel, local_kernels
from palate.engines.local_forward import TokenSpan
from palate.records import Progress, Settings

GIGA = 1e9
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "mkldnn_linear", "gemm", "cutlass",
            "nvjet", "xmma")  # fmt: skip
ATTENTION = ("attention", "flash", "fmha")
FREE = ("empty", "_unsafe_view", "detach")


@dataclass(frozen=True)
class PassProfile:
    """One way of reading one case; times are the profiler's, whose own cost is in the rest."""

    case: str
    way: str
    dtype: str
    seconds: float
    """Of the same pass without a profiler."""
    launches: float
    """Operations that compute, or an accelerator's kernels, per layer and pass."""
    gigabytes: float
    """What those operations read and write; shared tensors count each time."""
    products: float
    """Share of the time in products of matrices."""
    attention: float
    rest: float


def bench_profile(
    model: str, *, settings: Settings, cases: Sequence[BenchCase], progress: Progress
) -> list[PassProfile]:
    """Profile one slate of each case as a tree, and its sequences in dense batches of one."""
    local = load_model(model, settings)
    threads = local.torch.get_num_threads()
    local.torch.set_num_threads(1)  # the profiler and the count see one thread
    try:
        profiles = []
        for k, case in enumerate(cases):
            work = draw_work(local, case._replace(slates=1))
            ways = {"shared": _shared(local, work), "bare": _bare(local, work)}
            profiles += [_profile(local, case.name, way, read) for way, read in ways.items()]
            progress(k + 1, len(cases))
    finally:
        local.torch.set_num_threads(threads)
    return profiles


def _shared(local: LocalModel, work: BenchWork) -> Callable[[], Any]:
    return lambda: list(local.outputs([_last(group) for group in work.groups]))


def _last(group: Sequence[tuple[Sequence[int], int]]) -> list[TokenSpan]:
    return [TokenSpan(ids, len(ids) - 1, len(ids)) for ids, _ in group]


def _bare(local: LocalModel, work: BenchWork) -> Callable[[], Any]:
    rows = [local.tensor(ids) for ids, _ in work.rows]

    def read() -> list[Any]:
        with local.torch.inference_mode():
            base = local.model.base_model
            return [base(input_ids=row, use_cache=False).last_hidden_state[0, -1] for row in rows]

    return read


def _profile(local: LocalModel, case: str, way: str, read: Callable[[], Any]) -> PassProfile:
    torch = local.torch
    _wait(local, read)  # warm
    started = time.perf_counter()
    _wait(local, read)
    seconds = time.perf_counter() - started
    counter = _counter(torch)
    with counter:
        read()
    activities = [torch.profiler.ProfilerActivity.CPU]
    on_device = local.device != "cpu"
    if on_device:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler, _attention_named(torch):
        _wait(local, read)
    times: Counter[str] = Counter()
    kernels = 0
    for event in profiler.events():
        spent = event.self_device_time_total if on_device else event.self_cpu_time_total
        times[_kind(event)] += spent
        if on_device and str(event.device_type).endswith("CUDA"):
            kernels += 1
    total = sum(times.values()) or 1
    passes = counter.calls["embedding"] or 1
    layers = local.model.config.get_text_config().num_hidden_layers
    return PassProfile(
        case=case,
        way=way,
        dtype=str(local.dtype).removeprefix("torch."),
        seconds=seconds,
        launches=(kernels or sum(counter.calls.values())) / layers / passes,
        gigabytes=counter.bytes / GIGA,
        products=times["products"] / total,
        attention=times["attention"] / total,
        rest=times["rest"] / total,
    )


def _wait(local: LocalModel, read: Callable[[], Any]) -> None:
    read()
    if local.device != "cpu":
        local.torch.accelerator.synchronize()


@contextmanager
def _attention_named(torch: Any) -> Iterator[None]:
    # What attention's own products compute counts as attention.
    by_products = local_kernels.by_products

    def named(*given: Any) -> Any:
        with torch.profiler.record_function("attention"):
            return by_products(*given)

    with patch.object(local_kernels, "by_products", named):
        yield


def _kind(event: Any) -> str:
    above = event
    while above is not None:
        if kind_of(above.name) == "attention":
            return "attention"
        above = above.cpu_parent
    return kind_of(event.name)


def kind_of(name: str) -> str:
    """Return what an operation or a kernel is: products, attention, or the rest."""
    plain = name.lower()
    if any(word in plain for word in ATTENTION):
        return "attention"
    last = plain.rpartition("::")[2]
    return "products" if any(last.startswith(w) or w in last for w in PRODUCTS) else "rest"


def _counter(torch: Any) -> Any:
    """Return a mode that counts what computes, and the bytes of its tensors."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Counting(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.calls: Counter[str] = Counter()
            self.bytes = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            output = func(*args, **(kwargs or {}))
            name = func.__name__.partition(".")[0]
            if not func.is_view and not name.startswith(FREE):
                self.calls[name] += 1
                tensors = [it for it in tree_leaves((args, kwargs, output)) if torch.is_tensor(it)]
                self.bytes += sum(it.numel() * it.element_size() for it in tensors)
            return output

    return Counting()
