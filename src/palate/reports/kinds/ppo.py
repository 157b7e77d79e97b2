"""A trained policy as tables, on a page, and as a picture of reward and quality against KL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from palate.metrics import Estimate
from palate.metrics.selection.units import Units
from palate.reports.names import context_name, legend, short_names
from palate.reports.numbers import (
    NONE,
    Number,
    count,
    counted,
    p_value,
    plain,
    with_interval,
    without_interval,
)
from palate.reports.page.figures.drawing import look
from palate.reports.page.figures.plots import WIDTH as WIDE
from palate.reports.page.names import Names
from palate.reports.page.parts import Picture, Text
from palate.reports.pictures import panels, save
from palate.reports.screen import WIDTH
from palate.reports.table import Table
from palate.uses.ppo import PolicyTrainingResult
from palate.uses.ppo.gain_fit import gain_at
from palate.uses.ppo.result import GainFit, PolicyEvaluation

LEVELS = (
    "KL: of the policy from its start, nats an answer. ended: answers that end before the most "
    "tokens. entropy: nats a token. distinct: share of answers that differ. copied: share of an "
    "answer's runs of four words that the policy was shown."
)
CONTRAST = "contrast of "
KL = "KL from the untrained policy (nats)"
GAINS = (
    "after less before, on the same draws, paired by user and question. over stranger: the "
    "reward's gain less its gain where the scorer reads a stranger."
)

SURVIVORS = (
    "WARNING: not all of {total:,} answers are scored, and what is not has no part in the figures. "
    "Levels and gain are of the rows with a scored answer before and after ({rows:,} at the least)."
)


def tables(result: PolicyTrainingResult) -> list[Table]:
    """Return the gains of training, and what held-out users get before, during and after."""
    return [_gains(result), _evaluations(result)]


def _gains(result: PolicyTrainingResult) -> Table:
    summary, gain = result.summary, result.summary.gain
    first, last = summary.evaluations[0], summary.evaluations[-1]
    pairs = [_paired(result, [row.rewards for row in result.rows])]
    rows = [["reward", *pairs[0].levels, *_moved(gain.reward)]]
    missing = [(first.unscored, last.unscored)]
    if gain.stranger_reward is not None:
        pairs.append(_paired(result, [row.stranger_rewards for row in result.rows]))
        rows.append(
            ["reward, reading a stranger", *pairs[-1].levels, *_moved(gain.stranger_reward)]
        )
        missing.append((first.stranger_unscored, last.stranger_unscored))
    if gain.identity is not None:
        rows.append(["reward over stranger", NONE, NONE, *_moved(gain.identity)])
        missing.append(({}, {}))
    measures = _measures(first)
    for k, of in enumerate(gain.qualities):
        before, after = first.qualities[k], last.qualities[k]
        name = measures[of.quality]
        name = f"{name} (a surrogate)" if before.surrogate else name
        interval, _ = _moved(of.gain)
        values = [[each[k] for each in row.qualities] for row in result.rows]
        pairs.append(_paired(result, values, contrast=before.contrast))
        rows.append([name, *pairs[-1].levels, interval, p_value(of.p_holm)])
        missing.append((before.unrated, after.unrated))
    names = short_names([summary.scorer])
    shown = context_name(summary.context)
    title = (
        f"{summary.benchmark}: {summary.policy} after {last.update:,} updates of "
        f"{summary.recipe['answers']} answers by {summary.algorithm} on {names[summary.scorer]} · "
        f"{shown}, {summary.held_out_users:,} held-out users"
    )
    figures = [(row[0], each.note) for row, each in zip(rows, _estimates(result), strict=True)]
    columns = ["", "before", "after", "gain [95 %]", "p"]
    survivors = []
    if any(map(any, missing)):
        total = summary.n * len(result.rows)
        columns.insert(3, "scored")
        for row, reasons in zip(rows, missing, strict=True):
            scored = [f"{total - sum(by.values()):,}" for by in reasons]
            row.insert(3, NONE if row[1] is NONE else f"{scored[0]} → {scored[1]}")
        survivors = [SURVIVORS.format(total=total, rows=min(each.n for each in pairs))]
    notes = [
        _scale(result),
        GAINS,
        *survivors,
        *without_interval(figures),
        *_reserve(result),
        *summary.notes,
    ]
    return Table(title, columns, rows, [*notes, *legend({**names, **measures})], width=WIDTH)


def _evaluations(result: PolicyTrainingResult) -> Table:
    summary = result.summary
    stranger = summary.evaluations[0].stranger_reward is not None
    qualities = list(_measures(summary.evaluations[0]).values())
    missing = any(each.unscored for each in summary.evaluations)
    columns = [
        "updates",
        "KL",
        *["scored"] * missing,
        "reward",
        *["stranger"] * stranger,
        *qualities,
        "tokens",
        "ended",
        "entropy",
        "distinct",
        "copied",
    ]
    rows = [_row(each) for each in summary.evaluations]
    if missing:
        total = summary.n * len(result.rows)
        for row, each in zip(rows, summary.evaluations, strict=True):
            row.insert(2, count(total - sum(each.unscored.values())))
    notes = [LEVELS, *_peaks(summary.fits)]
    title = f"held-out users on the way: {summary.n} answers to each of {len(result.rows):,} rows"
    if result.folder is not None:
        notes.append(f"the policy: {result.folder / 'policy'}")
    return Table(title, columns, rows, notes, 0, frozenset({0}), width=WIDTH)


def _measures(evaluation: PolicyEvaluation) -> dict[str, str]:
    """Return a short name for each measure of quality."""
    whole = [of.quality for of in evaluation.qualities]
    plain_names = short_names([name.removeprefix(CONTRAST) for name in whole])
    return {
        name: (CONTRAST if name.startswith(CONTRAST) else "")
        + plain_names[name.removeprefix(CONTRAST)]
        for name in whole
    }


def _row(each: PolicyEvaluation) -> list[str]:
    stranger = [] if each.stranger_reward is None else [plain(each.stranger_reward.value)]
    return [
        count(each.update),
        Number(f"{each.kl:.2f}", each.kl),
        plain(each.reward.value),
        *stranger,
        *(plain(of.mean.value) for of in each.qualities),
        Number(f"{each.tokens:.1f}", each.tokens),
        _percent(each.ended),
        Number(f"{each.entropy:.2f}", each.entropy),
        _percent(each.distinct),
        NONE if each.copied is None else _percent(each.copied),
    ]


def _percent(share: float) -> Number:
    return Number(f"{share:.0%}", share)


class _Paired(NamedTuple):
    """Levels before and after of the same rows, or couples."""

    levels: tuple[Number, Number]
    n: int


def _paired(
    result: PolicyTrainingResult,
    values: Sequence[Sequence[float | None]],
    *,
    contrast: bool = False,
) -> _Paired:
    first, last = np.array([(of[0], of[-1]) for of in values], dtype=np.float64).T
    mirrors = result.mirrors if contrast else None
    units = Units.of(result.users, result.questions, ~np.isnan(last - first), mirrors)
    known = [units.values(each) for each in (first, last)]
    before, after = (plain(float(each.mean()) if each.size else None) for each in known)
    return _Paired((before, after), known[0].size)


def _moved(gain: Estimate) -> tuple[Number, Number]:
    return with_interval(gain.value, gain.low, gain.high, signed=True), p_value(gain.p)


def _estimates(result: PolicyTrainingResult) -> Iterator[Estimate]:
    gain = result.summary.gain
    yield from (it for it in (gain.reward, gain.stranger_reward, gain.identity) if it is not None)
    yield from (of.gain for of in gain.qualities)


def _scale(result: PolicyTrainingResult) -> str:
    scale = result.summary.scale
    base = f"mean {plain(scale.mean)}, deviation {plain(scale.deviation)}"
    if not result.summary.scaled:
        return f"reward: the scorer's own number (the untrained policy's: {base})."
    return f"reward: in deviations of the untrained policy's rewards ({base}, the scorer's own)."


def _reserve(result: PolicyTrainingResult) -> Iterator[str]:
    summary = result.summary
    if summary.shared_questions:
        yield (
            f"{summary.shared_questions:,} of {len(result.rows):,} held-out rows ask a question "
            "that other users asked in training."
        )
    for each in summary.evaluations:
        for what, reasons in (
            ("a reward", each.unscored),
            ("a reward that reads a stranger", each.stranger_unscored),
            *((of.quality, of.unrated) for of in each.qualities),
        ):
            if reasons:
                listed = "; ".join(counted(reasons))
                yield f"after {each.update:,} updates, answers without {what}: {listed}."


def _peaks(fits: Sequence[GainFit]) -> list[str]:
    """Say where the fitted gain is highest, for what has such a point."""
    listed = [f"{fit.of} near KL {fit.peak_kl:.3g}" for fit in fits if fit.peak_kl is not None]
    if not listed:
        return []
    return [f"over-optimisation, d (α − β log d) with d = √KL: highest {'; '.join(listed)}."]


def plot(result: PolicyTrainingResult, file: Path) -> None:
    """Draw reward and quality against KL, with the fitted curves; raises `UsageError`."""
    summary = result.summary
    qualities = [of.quality for of in summary.evaluations[0].qualities]
    names = _measures(summary.evaluations[0])
    figure, axes = panels(1, 1 + len(qualities), (3.6, 3.0))
    kls = np.array([each.kl for each in summary.evaluations])
    _rewards(axes[0, 0], result)
    for k, quality in enumerate(qualities):
        ax = axes[0, k + 1]
        means = [each.qualities[k].mean for each in summary.evaluations]
        _curve(ax, kls, means, "C2", quality)
        _fit(ax, kls, means, summary.fits, quality)
        ax.set_title(names[quality], fontsize=10, loc="left")
    for ax in axes.flat:
        ax.set_xlabel(KL)
    save(figure, file)


def _rewards(ax: Any, result: PolicyTrainingResult) -> None:
    evaluations = result.summary.evaluations
    kls = np.array([each.kl for each in evaluations])
    rewards = [each.reward for each in evaluations]
    strangers = [each.stranger_reward for each in evaluations]
    _curve(ax, kls, rewards, "C0", "reads the user")
    if all(each is not None for each in strangers):
        _curve(ax, kls, [each for each in strangers if each], "C1", "reads a stranger")
        ax.legend(frameon=False, fontsize=8)
    _fit(ax, kls, rewards, result.summary.fits, "reward")
    ax.set_title("reward", fontsize=10, loc="left")


def _curve(ax: Any, kls: Any, means: Sequence[Estimate], colour: str, label: str) -> None:
    values = np.array([each.value for each in means], dtype=np.float64)
    ends = [
        np.array([getattr(each, end) for each in means], dtype=np.float64)
        for end in ("low", "high")
    ]
    bars = np.abs(np.array(ends) - values)
    ax.errorbar(
        kls, values, bars, color=colour, lw=0, elinewidth=0.8, marker="o", ms=3.5, label=label
    )


def _fit(ax: Any, kls: Any, means: Sequence[Estimate], fits: Sequence[GainFit], of: str) -> None:
    fit = next((each for each in fits if each.of == of), None)
    if fit is None or means[0].value is None:
        return
    along = np.linspace(0, kls.max(), 200)
    ax.plot(
        along,
        [means[0].value + gain_at(kl, fit.alpha, fit.beta) for kl in along],
        color="grey",
        lw=1,
        ls="--",
    )


def parts(result: PolicyTrainingResult, names: Names, number: int) -> Iterator[object]:
    """Yield a drawing of reward against KL, and the tables."""
    yield Text("What training on a scorer's reward gives held-out users", "h3")
    gains, levels = (names.table(table) for table in tables(result))
    yield gains
    with look():
        figure, axes = panels(1, 1, (WIDE, 3.6))
        _rewards(axes[0, 0], result)
        axes[0, 0].set_xlabel(KL)
    yield Picture(
        f"ppo-{number}",
        "Reward against the distance from the untrained policy",
        "A dot is an evaluation with its 95 % interval; the dashed line is the fit of "
        "over-optimisation.",
        levels,
        figure,
    )
