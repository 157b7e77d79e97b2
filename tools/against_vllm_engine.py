"""One of the engines that `against_vllm.py` measures, in a process and an environment of its own.

vLLM's environment lacks palate and the other way round, so nothing of either is imported before it
is used.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

COMPILED = " compiled"
"""Ends the name of an engine whose layers are compiled."""
MARK = "against_vllm "
"""Begins what is told; libraries print other lines."""
SCORERS = {"classify": "classifier", "likelihood": "likelihood"}
"""By the kind of head, the kind of scorer."""
HEADS = tuple(SCORERS)
USUAL_BATCH, PALATE_BATCH = 8, 32
Work = list[dict[str, Any]]
"""Slates as JSON, each with its sequences: token ids, and where the response starts."""
Values = list[list[float]]
Score = Callable[[Work], Values]
Engine = tuple[Score, Callable[[], object]]
"""What is timed, and what goes before it and is not."""
Measure = Callable[[Work], tuple[float, Values]]
"""Seconds of some work, and its scores."""


def main() -> None:
    """Load the model, then do the work that each line on standard input names."""
    parser = argparse.ArgumentParser()
    for name in ("engine", "head", "folder", "dtype"):
        parser.add_argument(name)
    parser.add_argument("threads", type=int)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    folder = Path(options.folder)
    models = json.loads((folder / "models.json").read_text())
    model, kind = models[options.head], options.engine.removesuffix(COMPILED)
    if kind == "roof":
        measure = _roof(models["likelihood"], options)
    else:
        score, before = {"vllm": _vllm, "palate": _palate, "usual": _usual}[kind](model, options)
        measure = partial(_timed, score, before)
    measure(json.loads((folder / f"{options.head} pairs.json").read_text())[:1])  # warms up
    _answer("ready")
    for line in sys.stdin:
        work = json.loads((folder / f"{options.head} {line.strip()}.json").read_text())
        seconds, values = measure(work)
        _answer({"seconds": seconds, "values": values})


def _timed(score: Score, before: Callable[[], object], work: Work) -> tuple[float, Values]:
    before()
    started = time.perf_counter()
    values = score(work)
    return time.perf_counter() - started, values


def _answer(value: object) -> None:
    sys.stdout.write(f"{MARK}{json.dumps(value)}\n")
    sys.stdout.flush()


def _by_slate(work: Work, values: Sequence[float]) -> list[list[float]]:
    left = iter(values)
    return [list(islice(left, len(item["sequences"]))) for item in work]


def _vllm(model: str, options: argparse.Namespace) -> Engine:
    from vllm import LLM, PoolingParams, SamplingParams

    classify = options.head == "classify"
    kind: dict[str, Any] = {"runner": "pooling", "convert": "classify"} if classify else {}
    llm = LLM(
        model=model, dtype=options.dtype, enable_prefix_caching=True,
        enforce_eager=not options.engine.endswith(COMPILED), max_model_len=4096,
        disable_log_stats=True, **kind,
    )  # fmt: skip

    def score(work: Work) -> list[list[float]]:
        sequences = [(ids, start) for item in work for ids, start in item["sequences"]]
        prompts = [{"prompt_token_ids": ids} for ids, _ in sequences]
        if classify:
            raw = PoolingParams(task="classify", use_activation=False)
            outputs = llm.classify(prompts, pooling_params=raw, use_tqdm=False)
            return _by_slate(work, [float(each.outputs.probs[0]) for each in outputs])
        how = SamplingParams(max_tokens=1, temperature=0, prompt_logprobs=0)
        values = []
        for (ids, start), each in zip(
            sequences, llm.generate(prompts, how, use_tqdm=False), strict=True
        ):
            logps = [each.prompt_logprobs[k][ids[k]].logprob for k in range(start, len(ids))]
            values.append(sum(logps) / len(logps))
        return _by_slate(work, values)

    return score, llm.reset_prefix_cache


def _palate(model: str, options: argparse.Namespace) -> Engine:
    from palate.models import import_torch
    from palate.records import Encoded, Prepared, Settings, Slate
    from palate.scorers import build_scorer
    from palate.session import default_session
    from palate.specs import Reference

    import_torch().set_num_threads(options.threads)
    compiled: dict[str, Any] = {"compile": "on"} if options.engine.endswith(COMPILED) else {}
    settings = Settings(dtype=options.dtype, device=options.device, **compiled)
    scorer: Any = build_scorer(f"{SCORERS[options.head]}:{model}", default_session(), settings)
    head = "classifier" if options.head == "classify" else "causal"
    local = default_session().model(Reference.parse(model), head, settings)
    if compiled and local.notes:
        sys.exit("; ".join(local.notes))

    def score(work: Work) -> list[list[float]]:
        values: list[list[float]] = []
        for first in range(0, len(work), PALATE_BATCH):
            prepared = [
                Prepared(
                    Slate.model_validate(item["slate"]),
                    inputs=tuple(Encoded(tuple(ids), start) for ids, start in item["sequences"]),
                )
                for item in work[first : first + PALATE_BATCH]
            ]
            scored = dict(scorer.score_prepared(prepared))
            values += [list(scored[k].values) for k in range(len(prepared))]
        return values

    return score, lambda: None


def _usual(model: str, options: argparse.Namespace) -> Engine:
    import torch
    import transformers

    torch.set_num_threads(options.threads)
    classify = options.head == "classify"
    kind = "AutoModelForSequenceClassification" if classify else "AutoModelForCausalLM"
    made = getattr(transformers, kind).from_pretrained(model, dtype=getattr(torch, options.dtype))
    made.to(options.device).eval()
    made.config.pad_token_id = -1  # what is read is named here

    def read(batch: Sequence[tuple[list[int], int]]) -> list[float]:
        longest = max(len(ids) for ids, _ in batch)
        padded = ([ids + [0] * (longest - len(ids)) for ids, _ in batch],
                  [[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in batch])  # fmt: skip
        inputs, mask = (torch.tensor(each, device=options.device) for each in padded)
        with torch.inference_mode():
            hidden = made.base_model(input_ids=inputs, attention_mask=mask).last_hidden_state
            if classify:
                rows = torch.stack([hidden[k, len(ids) - 1] for k, (ids, _) in enumerate(batch)])
                return [float(v) for v in (rows.float() @ made.score.weight.float().T)[:, 0]]
            values = []
            for k, (ids, start) in enumerate(batch):
                logits = made.lm_head(hidden[k, start - 1 : len(ids) - 1]).float()
                logps = logits.log_softmax(-1).gather(1, inputs[k, start : len(ids)][:, None])
                values.append(float(logps.mean()))
            return values

    def score(work: Work) -> list[list[float]]:
        sequences = [(ids, start) for item in work for ids, start in item["sequences"]]
        values = [
            value
            for first in range(0, len(sequences), USUAL_BATCH)
            for value in read(sequences[first : first + USUAL_BATCH])
        ]
        return _by_slate(work, values)

    return score, lambda: None


def _roof(model: str, options: argparse.Namespace) -> Measure:
    """Reckon: the operations of the trees at the rate of bare dense forwards at their best batch.

    A head's reading has no logits among its operations.
    """
    from bench_prefix import bare_rate, costs_of, dense_operations, load_model, tree_operations
    from bench_work import BenchWork

    from palate.models import import_torch
    from palate.records import Settings

    import_torch().set_num_threads(options.threads)
    local = load_model(model, Settings(dtype=options.dtype, device=options.device))
    costs = costs_of(local)
    if options.head == "classify":
        costs = costs._replace(logits=0.0)

    def measure(work: Work) -> tuple[float, Values]:
        slates = tuple(tuple(tuple(ids) for ids, _ in item["sequences"]) for item in work)
        starts = tuple(item["sequences"][0][1] for item in work)
        rows = [ids for slate in slates for ids in slate]
        length = sum(map(len, rows)) // len(rows)
        rate = bare_rate(local, (max(rows, key=len) * 2)[:length])
        operations = tree_operations(costs, BenchWork(slates, starts))
        return operations / (rate * dense_operations(costs, length)), []

    return measure


if __name__ == "__main__":
    main()
