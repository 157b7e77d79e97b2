"""Does the context help, and does it have to be this user's? Paired, over the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from palate import metrics
from palate.comparison.paired import paired
from palate.errors import ComparisonError, SpecError
from palate.runs import Gain, Run
from palate.specs import Spec

STATE_GAINS: tuple[tuple[Literal["gain", "identity"], str], ...] = (
    ("gain", "prior"),
    ("identity", "stranger"),
)


def gains_of(runs: Sequence[Run], missing: Sequence[tuple[str, str, str]] = ()) -> list[Gain]:
    """Return gain and identity gain of every run that shows something.

    gain = acc(context) − acc(none); identity gain = acc(context) − acc(the same of a stranger).
    A gain that needs a run that is not there has no value. `missing` lists cells without meaning,
    (benchmark, scorer, context). p-values are Holm-corrected over the
    gains of a benchmark, oracles apart.
    """
    by_cell = {(r.summary.benchmark, r.summary.scorer, r.summary.context): r for r in runs}
    found = []
    for (benchmark, scorer, context), run in by_cell.items():
        found += _state_gains(run, by_cell)
        if context == "none":
            continue
        for kind, against in _partners(context, run.summary.oracle):
            other = by_cell.get((benchmark, scorer, against))
            cell = (benchmark, scorer, against)
            if other is None and cell not in missing:
                continue  # nobody asked for it
            base = Gain(
                benchmark=benchmark, scorer=scorer, context=context, kind=kind, against=against,
                oracle=run.summary.oracle,
            )  # fmt: skip
            found.append(base if other is None else gain(run, other, base))
    for benchmark in dict.fromkeys(one.benchmark for one in found):  # one table each
        family = [k for k, one in enumerate(found) if one.benchmark == benchmark and not one.oracle]
        corrected = metrics.holm([found[k].p for k in family])
        for k, p in zip(family, corrected, strict=True):
            found[k] = found[k].model_copy(update={"p_holm": p})
    return found


def _state_gains(run: Run, by_cell: Mapping[tuple[str, str, str], Run]) -> list[Gain]:
    """Return what a user's own state gains over the prior's and over a stranger's."""
    summary, found = run.summary, []
    try:
        spec = Spec.parse(summary.scorer)
    except SpecError:  # an object's own name
        return []
    if spec.options.get("state", "own") != "own":
        return []
    for kind, state in STATE_GAINS:
        other = str(spec.model_copy(update={"options": {**spec.options, "state": state}}))
        against = by_cell.get((summary.benchmark, other, summary.context))
        if against is not None:
            base = Gain(
                benchmark=summary.benchmark, scorer=summary.scorer, context=summary.context,
                kind=kind, against=f"state={state}", oracle=summary.oracle,
            )  # fmt: skip
            found.append(gain(run, against, base, all_rows=True))
    return found


def gain(run: Run, other: Run, base: Gain, *, all_rows: bool = False) -> Gain:
    """Fill in one gain over the rows (couples) that both runs scored.

    Of contexts only rows with an own part count; of states, all.
    """
    ours, theirs = run.verdicts, other.verdicts
    if not ours.same_rows(theirs):
        raise ComparisonError(
            f"{base.scorer}: the runs of {base.context} and {base.against} differ"
        )
    difference = paired(ours, theirs, counted=None if all_rows else ours.own_words > 0)
    estimate = difference.estimate
    return base.model_copy(
        update={
            "value": estimate.value,
            "low": estimate.low,
            "high": estimate.high,
            "n": estimate.n,
            "n_users": estimate.n_units,
            "n_left_out": difference.n_all - estimate.n,
            "p": difference.p,
            "note": estimate.note,
        }
    )


def _partners(context: str, oracle: bool) -> list[tuple[Literal["gain", "identity"], str]]:
    partners: list[tuple[Literal["gain", "identity"], str]] = [("gain", "none")]
    spec = Spec.parse(context)
    if not oracle and spec.options.get("of") != "stranger":
        options = {**spec.options, "of": "stranger"}
        partners.append(("identity", str(spec.model_copy(update={"options": options}))))
    return partners
