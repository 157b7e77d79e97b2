"""Does the context help, and does it have to be this user's? Paired, over the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from palate.comparison.paired import paired
from palate.comparison.redraws import Contrast, NoisySide, is_shown, with_survival
from palate.contexts import NOTHING, same_of, strangers_of
from palate.errors import ComparisonError
from palate.metrics import minimum_detectable_effect, share_of
from palate.runs import Gain, ReportedEstimate, Run, with_holm
from palate.scorers import State, draws_of, is_baseline, scorers_with_state, state_of

Kind = Literal["gain", "identity"]
Key = tuple[str, str, str]
"""Benchmark, scorer and context."""
STATE_GAINS: tuple[tuple[Kind, State], ...] = (("gain", "prior"), ("identity", "stranger"))


class IdentityParts(Gain):
    """An identity gain on rows that also have a stranger of the user's kind, and its two parts.

    own − any stranger = (own − stranger of the kind) + (stranger of the kind − any stranger).
    p_holm and survival are those of the gain on all of its rows.
    """

    same: str
    """What a stranger of the kind shares with the user: traits, or `cluster`."""
    individual: ReportedEstimate
    of_kind: ReportedEstimate
    stereotype_share: ReportedEstimate | None = None
    """of_kind / value, where the identity gain is shown and above 0."""


def gains_of(runs: Sequence[Run], missing: Sequence[tuple[str, str, str]] = ()) -> list[Gain]:
    """Return gain and identity gain of every run that shows something.

    gain = acc(context) − acc(none); identity gain = acc(context) − acc(the same of a stranger).
    A gain that needs a run that is not there has no value. `missing` lists cells without meaning,
    (benchmark, scorer, context). p-values are Holm-corrected over the gains of a benchmark, oracles
    and baselines apart. Where runs have noise, a gain below 5 % says in which share of redraws it
    stays there.
    """
    by_cell = {run.cell: run for run in runs}
    gains: list[Gain] = []
    for cell, run in by_cell.items():
        for kind, label, key in _controls(cell, [*by_cell, *missing], oracle=run.summary.oracle):
            named = dict(zip(("benchmark", "scorer", "context"), cell, strict=True))
            base = Gain(**named, kind=kind, against=label, oracle=run.summary.oracle)
            gains.append(gain(run, by_cell[key], base) if key in by_cell else base)
    tables = [None if one.oracle or is_baseline(one.scorer) else one.benchmark for one in gains]
    return _redrawn(with_holm(gains, [one.p for one in gains], tables), tables, by_cell)


def _redrawn(
    gains: Sequence[Gain], tables: Sequence[str | None], by_cell: Mapping[Key, Run]
) -> list[Gain]:
    """Return gains with the share of redraws in which each stays, where runs have noise."""
    if not any(run.again is not None for run in by_cell.values()):
        return list(gains)
    sides = {cell: NoisySide.of(run, run.verdicts) for cell, run in by_cell.items()}
    contrasts: dict[int, Contrast] = {}
    for k, (each, table) in enumerate(zip(gains, tables, strict=True)):
        other = against(each, by_cell)
        if other is not None and each.p is not None:
            own = sides[each.benchmark, each.scorer, each.context]
            contrasts[k] = Contrast(own, sides[other.cell], table, each, each.state_against is None)
    return with_survival(gains, contrasts)


def against(gain: Gain | None, by_cell: Mapping[Key, Run]) -> Run | None:
    """Return the run that a gain is over; None where it is not there."""
    if gain is None or gain.state_against is None:
        return None if gain is None else by_cell.get((gain.benchmark, gain.scorer, gain.against))
    cell = gain.benchmark, gain.scorer, gain.context
    controls = _controls(cell, by_cell, oracle=gain.oracle)
    return next((by_cell[key] for _, label, key in controls if label == gain.against), None)


def _controls(
    cell: Key, cells: Iterable[Key], *, oracle: bool, of_kind: bool = False
) -> Iterator[tuple[Kind, str, Key]]:
    """Yield what a cell's gains are over, states first: which gain, a name, and the cell."""
    (benchmark, scorer, context), cells = cell, [it for it in cells if it[0] == cell[0]]
    alike = [by for _, by, shown in cells if shown == context]
    for kind, state in STATE_GAINS if state_of(scorer) == "own" else ():
        for other in scorers_with_state(scorer, state, alike, of_kind=of_kind):
            draws = f"&draws={n}" if (n := draws_of(other)) else ""
            yield kind, f"state={state}{draws}", (benchmark, other, context)
    if context == NOTHING or same_of(context) or same_of(scorer):
        return
    contexts = [shown for _, by, shown in cells if by == scorer]
    if NOTHING in contexts and not of_kind:
        yield "gain", NOTHING, (benchmark, scorer, NOTHING)
    for other in () if oracle else strangers_of(context, contexts, of_kind=of_kind):
        yield "identity", other, (benchmark, scorer, other)


def gain(run: Run, other: Run, base: Gain) -> Gain:
    """Fill in a gain over rows (couples) that both scored; of contexts those with an own part."""
    ours, theirs = run.verdicts, other.verdicts
    if not ours.same_rows(theirs):
        raise ComparisonError(
            f"{base.scorer}: the runs of {base.context} and {base.against} differ"
        )
    difference = paired(ours, theirs, counted=None if base.state_against else ours.own_words > 0)
    estimate = difference.estimate
    effect = minimum_detectable_effect(estimate.se, estimate.df)
    more = {"n_left_out": difference.n_all - estimate.n, "minimum_detectable_effect": effect}
    return base.model_copy(update=difference.figures | more)


def identity_parts(runs: Sequence[Run], gains: Sequence[Gain] = ()) -> list[IdentityParts]:
    """Return the parts of each identity gain of these runs, for each kind of stranger they have."""
    by_cell, parts = {run.cell: run for run in runs}, list[IdentityParts]()
    if not any(same_of(text) for _, *texts in by_cell for text in texts):
        return parts
    for each in gains or gains_of(runs):
        cell, other = (each.benchmark, each.scorer, each.context), against(each, by_cell)
        for kind, _, key in _controls(cell, by_cell, oracle=each.oracle, of_kind=True):
            by_context = each.state_against is None
            if other and kind == each.kind and by_context == (key[1] == each.scorer):
                parts.append(_parts(each, by_cell[cell], by_cell[key], other))
    return parts


def _parts(gain: Gain, own: Run, alike: Run, other: Run) -> IdentityParts:
    ours, theirs = own.verdicts, [own.verdicts, alike.verdicts, other.verdicts]
    if not ours.same_rows(theirs[1]):
        raise ComparisonError(f"{gain.scorer}: the runs of strangers of {gain.context} differ")
    counted = ~np.isnan(sum(verdicts.values for verdicts in theirs))
    counted &= (ours.own_words > 0) | (gain.state_against is not None)
    sums = [paired(theirs[a], theirs[b], counted=counted) for a, b in ((0, 2), (0, 1), (1, 2))]
    whole, individual, of_kind = (each.estimate for each in sums)
    shown = is_shown(gain) and (gain.value or 0) > 0
    share = ReportedEstimate.of(share_of(of_kind, whole, individual)) if shown else None
    return IdentityParts(
        **dict(gain) | sums[0].figures | {"n_left_out": sums[0].n_all - whole.n},
        same=same_of(alike.summary.scorer) or same_of(alike.summary.context) or "",
        individual=ReportedEstimate.of(individual),
        of_kind=ReportedEstimate.of(of_kind),
        stereotype_share=share,
    )
