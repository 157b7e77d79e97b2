"""Write made files in the layouts of public files of votes, for `palate audit` and others to read.

    python tools/shaped_votes.py FOLDER

People, tastes and texts are planted: of the public files they have the columns alone.
`raters.jsonl` is as SQuALITY's: 4 summaries of each of 100 stories, rated from 1 to 100 by 3 of 24
raters. Tastes are of two kinds, and half of a rating is what everybody agrees on.
`community_alignment.csv` and `prism/` are those of the tests: 60 people of four tastes choose one
of four responses, 19 of 20 times by their taste.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from field_studies import alignment, prism, write_csv, write_prism

STORIES, RATERS, EACH, TEXTS = 100, 24, 3, 4


def ratings() -> Iterator[dict[str, Any]]:
    """Yield a line for each rating of a summary."""
    draw = np.random.default_rng(0)
    for story in range(STORIES):
        good, taste = draw.normal(size=TEXTS), draw.normal(size=TEXTS)
        for rater in draw.permutation(RATERS)[:EACH]:
            points = good + (1 if rater % 2 else -1) * taste + draw.normal(0, 0.7, TEXTS)
            for text, score in enumerate(points):
                yield {
                    "prompt": f"What is story {story} about?",
                    "response": f"Summary {text} of story {story}.",
                    "rater": f"r{rater:02d}",
                    "score": int(np.clip(50 + 15 * score, 1, 100)),
                }


def main(folder: Path) -> None:
    """Write the three."""
    (folder / "prism").mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(line) + "\n" for line in ratings())
    (folder / "raters.jsonl").write_text("".join(lines), encoding="utf-8")
    write_csv(folder, alignment(people=60, prompts=16, each=8))
    write_prism(folder / "prism", *prism(people=60, prompts=16, each=8))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
