"""What study.py left in WORK, as the numbers that the tables print.

python -m studies.selection_crisis.figures WORK > studies/selection_crisis/figures.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate.metrics import Estimate, RankAgreement, kendall_agreement, minimum_detectable_effect
from palate.runs import load_all
from palate.uses.best_of_n import BestOfResult
from palate.uses.decode_result import DecodeResult, GuidedCell
from palate.uses.policy_curves import PolicyAccuracy
from studies.selection_crisis.study import IN_CONTEXT

Figures = dict[str, Any]
RANKED = (
    "votes-tilt", "votes-tilt-absolute", "votes-decoder", "tasting-tilt", "author-states-tilt",
    "author-tilt", "tasting-in-context", "author-in-context",
)  # fmt: skip
DECODED = "votes-decoder"
GUIDED = ("oracle", "tokens", "states", "similar", "heads")
KINDS = (PolicyAccuracy.kind, DecodeResult.kind, BestOfResult.kind)
BEST_OF = 4
"""As many answers as a block has proposals: the policy writes equally many tokens."""


def main() -> None:
    """Print all figures of the results that are there."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    root = Path(sys.argv[1]) / "runs"
    ranked = {name: ranking(only(root / name)) for name in RANKED if ended(root / name)}
    for name in ("votes-tilt", "votes-tilt-absolute"):
        if name in ranked and DECODED in ranked:
            ranked[name]["of_decoded"] = among(ranked[name], ranked[DECODED])
    written = list(writing(root)) if ended(root / "plain") else []
    if not (ranked or written):
        raise SystemExit(f"{root}: nothing has ended there yet; run study.py")
    sys.stdout.write(json.dumps({"ranking": ranked, "writing": written}, indent=1) + "\n")


def ended(folder: Path) -> bool:
    """Tell whether a command has left its result."""
    return any(any(folder.glob(f"*/{kind}/*/summary.json")) for kind in KINDS)


def only(folder: Path) -> Any:
    """Return the one result of a command."""
    (result,) = load_all(folder, KINDS)
    return result


def ranking(result: PolicyAccuracy) -> Figures:
    """Return which response the steered policies prefer, and τ along the weights."""
    summary = result.summary
    return {
        "score": summary.score,
        "relative": summary.relative,
        "rows": summary.n_rows,
        "common": summary.n_common,
        "weights": list(summary.weights),
        "agreements": [
            {"reading": each.reading, "weight": each.weight, **_tau(each.agreement)}
            for each in summary.agreements
        ],
        "guides": [
            {
                "scorer": cell.scorer, "context": cell.context, "reward": cell.reward.value,
                "policy": cell.readings[0].base.value,
                "steered": _estimate(cell.readings[0].accuracy),
                "gain": _estimate(cell.readings[0].gain), "p": cell.readings[0].gain_p_holm,
                "chosen": list(cell.readings[0].chosen), "unit": cell.unit,
                "curve": [point.accuracy.value for point in cell.readings[0].points],
                "misses": cell.misses.missed / cell.misses.tokens if cell.misses else None,
            }
            for cell in summary.cells
        ],
    }  # fmt: skip


def among(result: Figures, other: Figures) -> list[Figures]:
    """Return τ of the sums along the weights over the guides alone that another result has too."""
    both = {each["scorer"] for each in other["guides"]}
    return along(result, [each for each in result["guides"] if each["scorer"] in both])


def along(result: Figures, guides: Sequence[Figures]) -> list[Figures]:
    """Return τ of the sums along the weights over some of a result's guides."""
    rewards = [each["reward"] for each in guides]
    return [
        {"reading": "sum", "weight": weight,
         **_tau(kendall_agreement(rewards, [each["curve"][k] for each in guides]))}
        for k, weight in enumerate(result["weights"]) if weight
    ]  # fmt: skip


def writing(root: Path) -> Iterator[Figures]:
    """Yield what each way of writing is worth to its user, beside the policy alone."""
    plain: BestOfResult = only(root / "plain")
    rows = plain.figures
    alone = _one_answer(plain)
    yield {"way": "the policy alone", "quality": _estimate(rows.mean(alone)),
           "words": _words(root / "plain")}  # fmt: skip
    contexts = {name: _one_answer(only(root / name)) for name in IN_CONTEXT if ended(root / name)}
    for name, values in contexts.items():
        stranger = contexts.get(f"{name}-stranger")
        yield {
            "way": "in context", "shown": IN_CONTEXT[name], "words": _words(root / name),
            "quality": _estimate(rows.mean(values)), "gain": _detectable(rows.gain(values, alone)),
            "over_stranger":
                None if stranger is None else _detectable(rows.gain(values, stranger)),
        }  # fmt: skip
    at = plain.summary.ks.index(BEST_OF)
    alike: dict[str, NDArray[np.float64]] = {}
    for k, selection in enumerate(plain.summary.cells):
        picked = plain.expected[:, k, at]
        if selection.contrast or np.array_equal(
            picked, alike.get(selection.scorer), equal_nan=True
        ):
            continue  # a scorer that reads no context is told once
        alike[selection.scorer] = picked
        yield {
            "way": f"best of {BEST_OF}", "guide": selection.scorer, "shown": selection.context,
            "quality": _estimate(rows.mean(picked)), "gain": _detectable(rows.gain(picked, alone)),
        }  # fmt: skip
    for name in GUIDED:
        if ended(root / name):
            result: DecodeResult = only(root / name)
            _same_rows(result, plain)
            yield from (_guided(cell, result) for cell in result.summary.cells)


def _guided(cell: GuidedCell, result: DecodeResult) -> Figures:
    measure, contrast = cell.qualities
    return {
        "way": cell.method, "weight": cell.weight, "guide": cell.scorer, "shown": cell.context,
        "quality": _estimate(measure.mean), "gain": _detectable(measure.gain),
        "p": measure.p_holm,
        "over_stranger":
            None if measure.identity_gain is None else _detectable(measure.identity_gain),
        "contrast": _estimate(contrast.mean),
        "reward": _estimate(cell.guiding.reward), "divergence": cell.guiding.divergence,
        "words": cell.guiding.text.words, "cut_off": cell.guiding.text.cut_off,
        "words_alone": result.summary.text.words,
        "distinct": cell.guiding.text.distinct_bigrams, "tokens": cell.guiding.tokens,
        "answers": result.summary.n,
    }  # fmt: skip


def _one_answer(result: BestOfResult) -> NDArray[np.float64]:
    """Return each row's mean quality of one answer, drawn blindly."""
    first = next(k for k, each in enumerate(result.summary.cells) if not each.contrast)
    return result.expected[:, first, result.summary.ks.index(1)]


def _words(folder: Path) -> float:
    """Return the mean words of a policy's answers."""
    (file,) = folder.glob("*-samples/[!g]*.jsonl")  # guided ones begin with a g
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return float(np.mean([len(each["text"].split()) for row in rows for each in row["samples"]]))


def _same_rows(result: DecodeResult, plain: BestOfResult) -> None:
    if [row.id for row in result.rows] != [row.id for row in plain.rows]:
        raise SystemExit("results of different rows; remove WORK/runs and run study.py again")


def _estimate(estimate: Any) -> Figures:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def _detectable(estimate: Estimate) -> Figures:
    least = minimum_detectable_effect(estimate.se, estimate.df)
    return {**_estimate(estimate), "p": estimate.p, "detectable": least, "n": estimate.n}


def _tau(agreement: RankAgreement) -> Figures:
    return {
        "n": agreement.n, "tau": agreement.value, "p": agreement.chance.p,
        "interval": asdict(agreement.interval),
        "chance": [agreement.chance.low, agreement.chance.high],
    }  # fmt: skip


if __name__ == "__main__":
    main()
