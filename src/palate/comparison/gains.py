"""Does a context help, does it have to be this user's, what does it cost? Over the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from palate import metrics
from palate.comparison.paired import paired
from palate.comparison.redraws import Contrast, NoisySide, is_shown, with_survival
from palate.contexts import NOTHING, same_of, shows, strangers_of
from palate.errors import ComparisonError, UsageError
from palate.metrics import minimum_detectable_effect, share_of
from palate.runs import Cost, Gain, ReportedEstimate, Run, with_holm
from palate.scorers import State, draws_of, is_baseline, scorers_with_state, state_of

MARGIN = 0.02
"""The largest tax that is called harmless, unless `--margin` says otherwise."""
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
    if shows(context) not in ("user", "stranger") or same_of(context) or same_of(scorer):
        return  # what others than these cost is told by itself
    contexts = [shown for _, by, shown in cells if by == scorer]
    if NOTHING in contexts and not of_kind:
        yield "gain", NOTHING, (benchmark, scorer, NOTHING)
    for other in () if oracle else strangers_of(context, contexts, of_kind=of_kind):
        yield "identity", other, (benchmark, scorer, other)


def gain(run: Run, other: Run, base: Gain) -> Gain:
    """Fill in a gain over rows (couples) that both scored; of contexts those with an own part."""
    ours, theirs = run.verdicts, other.verdicts
    if not ours.same_rows(theirs):
        both = f"{base.context} and {base.against}"
        raise ComparisonError(f"{base.scorer}: the runs of {both} differ")
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


def costs_of(runs: Sequence[Run], *, margin: float = MARGIN) -> list[Cost]:
    """Return what borrowed users and pressure cost each scorer, over the same scorer shown nothing.

    ``tax = accuracy(nothing) − accuracy(shown)``, over rows that show somebody and are scored both
    ways. Of runs of `--agreed only` a row's own user has a tax as well. Raises `UsageError` for a
    margin outside (0, ½), `ComparisonError` for runs of other rows.

    >>> from palate.comparison import evaluate
    >>> cost, = costs_of(evaluate("tasting", ["longest"], ["none", "pressure"], root=None).runs)
    >>> cost.tax.value, cost.follows.value, cost.finding
    (0.0, 0.0, 'not shown')
    """
    if not 0 < margin < 0.5:
        raise UsageError(f"--margin {margin:g}: expected a fall in accuracy between 0 and 0.5")
    plain = {run.cell[:2]: run for run in runs if run.summary.context == NOTHING}
    costs = []
    for run in runs:
        kind = shows(run.summary.context)
        own = kind == "user" and run.summary.agreed_of and not run.summary.oracle
        if own or kind in ("borrowed", "pressure"):
            costs.append(_cost(run, plain.get(run.cell[:2]), margin))
    return costs


def _cost(run: Run, plain: Run | None, margin: float) -> Cost:
    after = run.verdicts.by_id()
    before = after if plain is None else plain.verdicts.by_id()
    if not after.same_rows(before):
        raise ComparisonError(f"{' under '.join(run.cell[1:])}: the run shown nothing differs")
    y, by = np.where(after.own_words > 0, after.values, np.nan), after.clusters
    x = np.full(len(y), np.nan) if plain is None else np.where(np.isnan(y), y, before.values)
    tax = metrics.paired_difference(x, y, by)
    if plain is None:
        tax = replace(tax, note="no run shown nothing (-c none), or it has no meaning there")
    else:
        y = np.where(np.isnan(x), x, y)
    q = metrics.effective_number((after.question_codes,), (~np.isnan(x - y)).astype(float))
    tested = metrics.non_inferiority(tax, margin=margin, questions=q)
    costs, harmless = (tax.low or 0.0) > 0, tested.finding == "shown"
    follows = metrics.clustered_mean(np.where(x > 0.5, 1 - y, np.nan), by)
    return Cost(
        **dict(zip(("benchmark", "scorer", "context"), run.cell, strict=True)),
        nothing=metrics.accuracy(np.where(np.isnan(y), y, x), by).value,
        shown=ReportedEstimate.of(metrics.accuracy(y, by)),
        tax=ReportedEstimate.of(tax),
        margin=margin,
        finding=("not shown", "harmless", "costs", "costs less")[2 * costs + harmless],
        p=tested.p,
        n_needed=None if costs or harmless else tested.n_needed,
        follows=ReportedEstimate.of(follows) if run.summary.oracle else None,
    )
