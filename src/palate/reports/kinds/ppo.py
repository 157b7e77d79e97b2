"""A trained policy as tables, on a page, and as a picture of reward and quality against KL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.metrics import Estimate
from palate.reports.names import context_name, legend, short_names
from palate.reports.numbers import (
    NONE,
    Number,
    count,
    counted,
    figure,
    p_value,
    plain,
    without_interval,
)
from palate.reports.page.figures.curves import kl_lines
from palate.reports.page.figures.drawing import picture
from palate.reports.page.names import Names
from palate.reports.page.parts import Text
from palate.reports.screen import WIDTH
from palate.reports.table import Table
from palate.uses.ppo import PolicyTrainingResult
from palate.uses.ppo.gain_fit import gain_at
from palate.uses.ppo.result import GainFit, PolicyEvaluation, PolicyTrainingSummary

LEVELS = (
    "KL: of the policy from its start, nats an answer. ended: answers that end before the most "
    "tokens. entropy: nats a token. distinct: share of answers that differ. copied: share of an "
    "answer's runs of four words that the policy was shown."
)
CONTRAST = "contrast of "
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
    pairs = [_paired(result, result.rewards)]
    rows = [["reward", *pairs[0].levels, *_moved(gain.reward)]]
    missing = [(first.unscored, last.unscored)]
    if gain.stranger_reward is not None and result.stranger_rewards is not None:
        pairs.append(_paired(result, result.stranger_rewards))
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
        pairs.append(_paired(result, result.qualities[:, :, k], contrast=before.contrast))
        rows.append([name, *pairs[-1].levels, interval, p_value(of.p_holm)])
        missing.append((before.unrated, after.unrated))
    reward = summary.trained_on
    names = short_names([reward.scorer])
    shown = context_name(reward.context)
    title = (
        f"{summary.benchmark}: {summary.policy} after {last.update:,} updates of "
        f"{summary.recipe['answers']} answers by {summary.algorithm} on {names[reward.scorer]} · "
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
        *reward.notes,
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


def _row(evaluation: PolicyEvaluation) -> list[str]:
    stranger = (
        [] if evaluation.stranger_reward is None else [plain(evaluation.stranger_reward.value)]
    )
    return [
        count(evaluation.update),
        Number(f"{evaluation.kl:.2f}", evaluation.kl),
        plain(evaluation.reward.value),
        *stranger,
        *(plain(of.mean.value) for of in evaluation.qualities),
        Number(f"{evaluation.tokens:.1f}", evaluation.tokens),
        _percent(evaluation.ended),
        Number(f"{evaluation.entropy:.2f}", evaluation.entropy),
        _percent(evaluation.distinct),
        NONE if evaluation.copied is None else _percent(evaluation.copied),
    ]


def _percent(share: float) -> Number:
    return Number(f"{share:.0%}", share)


class _Paired(NamedTuple):
    """Levels before and after of the same rows, or couples."""

    levels: tuple[Number, Number]
    n: int


def _paired(
    result: PolicyTrainingResult, values: NDArray[np.float64], *, contrast: bool = False
) -> _Paired:
    first, last = values[:, 0], values[:, -1]
    mirrors = result.mirrors if contrast else None
    units = result.figures.units(last - first, mirrors)
    known = [units.values(each) for each in (first, last)]
    before, after = (plain(float(each.mean()) if each.size else None) for each in known)
    return _Paired((before, after), known[0].size)


def _moved(gain: Estimate) -> tuple[Number, Number]:
    return figure(gain, signed=True), p_value(gain.p)


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
    for evaluation in summary.evaluations:
        for what, reasons in (
            ("a reward", evaluation.unscored),
            ("a reward that reads a stranger", evaluation.stranger_unscored),
            *((of.quality, of.unrated) for of in evaluation.qualities),
        ):
            if reasons:
                listed = "; ".join(counted(reasons))
                yield f"after {evaluation.update:,} updates, answers without {what}: {listed}."


def _peaks(fits: Sequence[GainFit]) -> list[str]:
    """Say where the fitted gain is highest, for what has such a point."""
    listed = [f"{fit.of} near KL {fit.peak_kl:.3g}" for fit in fits if fit.peak_kl is not None]
    if not listed:
        return []
    return [f"over-optimisation, d (α − β log d) with d = √KL: highest {'; '.join(listed)}."]


def parts(result: PolicyTrainingResult, names: Names, number: int) -> Iterator[object]:
    """Yield the tables, and a drawing against KL of reward and of every measure of quality."""
    yield Text("What training on a scorer's reward gives held-out users", "h3")
    gains, levels = (names.table(table) for table in tables(result))
    yield gains
    first, measures = result.summary.evaluations[0], _measures(result.summary.evaluations[0])
    reward = {"reads the user": [each.reward for each in result.summary.evaluations]}
    strangers = [each.stranger_reward for each in result.summary.evaluations]
    if first.stranger_reward is not None:
        reward["reads a stranger"] = [each for each in strangers if each is not None]
    drawn = [("reward", "reward", reward)]
    for k, of in enumerate(first.qualities):
        means = [each.qualities[k].mean for each in result.summary.evaluations]
        drawn.append((of.quality, names.public(measures[of.quality]), {"held-out users": means}))
    for k, (of_what, title, lines) in enumerate(drawn):
        yield picture(
            f"ppo-{number}-{k}",
            f"{title[:1].upper()}{title[1:]} against the distance from the untrained policy",
            "A dot is an evaluation with its 95 % interval; the dashed line is the fit of "
            "over-optimisation.",
            levels,
            partial(
                kl_lines,
                of=title,
                fitted=_fitted(result.summary, of_what),
                lines={
                    name: [
                        (each.kl, mean)
                        for each, mean in zip(result.summary.evaluations, means, strict=True)
                    ]
                    for name, means in lines.items()
                },
            ),
        )


def _fitted(summary: PolicyTrainingSummary, of: str) -> list[tuple[float, float]]:
    """Return points of the curve that is fitted to the gains, above the first mean."""
    fit = next((each for each in summary.fits if each.of == of), None)
    first = summary.evaluations[0]
    means = {"reward": first.reward} | {each.quality: each.mean for each in first.qualities}
    start = means[of]
    if fit is None or start.value is None:
        return []
    along = np.linspace(0, max(each.kl for each in summary.evaluations), 200).tolist()
    return [(kl, start.value + gain_at(kl, fit.alpha, fit.beta)) for kl in along]
