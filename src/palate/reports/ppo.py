"""A trained policy as tables, on a page, and as a picture of reward and quality against KL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from palate.metrics import Estimate
from palate.reports.names import Names, context_name, legend, short_names
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
from palate.reports.parts import Text, label, picture
from palate.reports.plots import LEVEL_LINE, draw_line
from palate.reports.table import WIDTH, Table
from palate.uses.ppo_result import (
    GainFit,
    PolicyEvaluation,
    PolicyTrainingResult,
    PolicyTrainingSummary,
    gain_at,
)
from palate.uses.units import Doubles

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


class _Moved(NamedTuple):
    """What training moved, and its levels before and after on the same rows, or couples."""

    name: str
    gain: Estimate
    p: float | None
    levels: tuple[Number, Number] = (NONE, NONE)
    n: int | None = None
    """Rows, or couples, under the levels."""
    missing: Sequence[Mapping[str, int]] = ()
    """Why answers have none, before and after."""

    @property
    def n_missing(self) -> list[int]:
        return [sum(reasons.values()) for reasons in self.missing]


def _moved(result: PolicyTrainingResult) -> Iterator[_Moved]:
    gain, evaluations = result.summary.gain, result.summary.evaluations
    first, last = evaluations[0], evaluations[-1]

    def of(
        name: str, gain: Estimate, values: Doubles, *lost: Mapping[str, int], contrast: bool = False
    ) -> _Moved:
        ends = values[:, 0], values[:, -1]
        units = result.figures.units(ends[1] - ends[0], result.mirrors if contrast else None)
        known = [units.values(end) for end in ends]
        before, after = (plain(float(end.mean()) if end.size else None) for end in known)
        return _Moved(name, gain, gain.p, (before, after), known[0].size, lost)

    yield of("reward", gain.reward, result.rewards, first.unscored, last.unscored)
    if gain.stranger_reward is not None and result.stranger_rewards is not None:
        name, rewards = "reward, reading a stranger", result.stranger_rewards
        reasons = first.stranger_unscored, last.stranger_unscored
        yield of(name, gain.stranger_reward, rewards, *reasons)
    if gain.identity is not None:
        yield _Moved("reward over stranger", gain.identity, gain.identity.p)
    for k, moved in enumerate(gain.qualities):
        before, after = first.qualities[k], last.qualities[k]
        name = _measures(first)[moved.quality] + " (a surrogate)" * before.surrogate
        values, reasons = result.qualities[:, :, k], (before.unrated, after.unrated)
        row = of(name, moved.gain, values, *reasons, contrast=before.contrast)
        yield row._replace(p=moved.p_holm)


def _gains(result: PolicyTrainingResult) -> Table:
    summary = result.summary
    reward, last = summary.trained_on, summary.evaluations[-1]
    moved, names = [*_moved(result)], short_names([reward.scorer])
    title = (
        f"{summary.benchmark}: {summary.policy} after {last.update:,} updates of "
        f"{summary.recipe['answers']} answers by {summary.algorithm} on {names[reward.scorer]} · "
        f"{context_name(reward.context)}, {summary.held_out_users:,} held-out users"
    )
    columns: dict[str, Callable[[_Moved], str]] = {
        "": lambda row: row.name,
        "before": lambda row: row.levels[0],
        "after": lambda row: row.levels[1],
    }
    survivors = []
    if any(any(row.missing) for row in moved):
        total = summary.n * len(result.rows)
        columns["scored"] = lambda row: (
            NONE
            if row.levels[0] is NONE
            else " → ".join(f"{total - missing:,}" for missing in row.n_missing)
        )
        least = min(row.n for row in moved if row.n is not None)
        survivors = [SURVIVORS.format(total=total, rows=least)]
    columns["gain [95 %]"] = lambda row: figure(row.gain, signed=True)
    columns["p"] = lambda row: p_value(row.p)
    notes = [
        _scale(result),
        GAINS,
        *survivors,
        *without_interval((row.name, row.gain.note) for row in moved),
        *_reserve(result),
        *reward.notes,
        *legend({**names, **_measures(summary.evaluations[0])}),
    ]
    return Table.of(title, moved, columns, notes, width=WIDTH)


def _evaluations(result: PolicyTrainingResult) -> Table:
    summary, total = result.summary, result.summary.n * len(result.rows)
    first = summary.evaluations[0]
    missing = any(each.unscored for each in summary.evaluations)
    columns = ["updates", "KL", *["scored"] * missing, "reward"]
    columns += [*["stranger"] * (first.stranger_reward is not None), *_measures(first).values()]
    columns += ["tokens", "ended", "entropy", "distinct", "copied"]
    rows = [
        [
            count(each.update),
            Number(f"{each.kl:.2f}", each.kl),
            *[count(total - sum(each.unscored.values()))] * missing,
            plain(each.reward.value),
            *([plain(each.stranger_reward.value)] if each.stranger_reward is not None else []),
            *(plain(of.mean.value) for of in each.qualities),
            Number(f"{each.tokens:.1f}", each.tokens),
            _percent(each.ended),
            Number(f"{each.entropy:.2f}", each.entropy),
            _percent(each.distinct),
            NONE if each.copied is None else _percent(each.copied),
        ]
        for each in summary.evaluations
    ]
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


def _percent(share: float) -> Number:
    return Number(f"{share:.0%}", share)


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
    evaluations = result.summary.evaluations
    strangers = [(each.kl, each.stranger_reward) for each in evaluations]
    reward = {
        "reads the user": [(each.kl, each.reward) for each in evaluations],
        "reads a stranger": [(kl, mean) for kl, mean in strangers if mean is not None],
    }
    drawn = [("reward", "reward", {name: points for name, points in reward.items() if points})]
    for k, (quality, name) in enumerate(_measures(evaluations[0]).items()):
        points = [(each.kl, each.qualities[k].mean) for each in evaluations]
        drawn.append((quality, names.public(name), {"held-out users": points}))
    for k, (of, title, lines) in enumerate(drawn):
        start = next(iter(lines.values()))[0][1].value
        yield picture(
            f"ppo-{number}-{k}",
            f"{title[:1].upper()}{title[1:]} against the distance from the untrained policy",
            "A dot is an evaluation with its 95 % interval; the dashed line is the fit of "
            "over-optimisation.",
            levels,
            partial(kl_lines, lines=lines, fitted=_fitted(result.summary, of, start), of=title),
        )


def _fitted(
    summary: PolicyTrainingSummary, of: str, start: float | None
) -> list[tuple[float, float]]:
    """Return points of the curve that is fitted to the gains, above the first mean."""
    fit = next((each for each in summary.fits if each.of == of), None)
    if fit is None or start is None:
        return []
    along = np.linspace(0, max(each.kl for each in summary.evaluations), 200).tolist()
    return [(kl, start + gain_at(kl, fit.alpha, fit.beta)) for kl in along]


def kl_lines(
    ax: Any,
    lines: Mapping[str, Sequence[tuple[float, Estimate]]],
    fitted: Sequence[tuple[float, float]],
    of: str,
) -> None:
    """Draw means against the distance from the untrained policy, and a fitted curve."""
    for k, (name, points) in enumerate(lines.items()):
        known = [(at, estimate) for at, estimate in points if estimate.value is not None]
        draw_line(ax, k, name, known, ls="")
    if fitted:
        ax.plot(*np.array(fitted).T, label="fit", **LEVEL_LINE)
    ax.set(xlabel="KL from the untrained policy (nats)", ylabel=label(of, 32))
    ax.grid(axis="y")
