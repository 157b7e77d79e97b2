"""The plan of policy accuracy: how the policy is steered, by whom, and which pairs are reserved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal, NamedTuple

from palate.benchmarks import Dataset
from palate.benchmarks.dataset import as_mirrored
from palate.comparison import plan_grid
from palate.contexts import NOTHING, with_controls
from palate.errors import SpecError, UsageError
from palate.evaluation import Work
from palate.guidance import PRESETS, TOKEN_METHODS
from palate.metrics.policy import INFINITE
from palate.records import Judge, PreferencePair
from palate.scorers.tilted_policy import StatefulPolicy
from palate.seeding import shuffled
from palate.specs import Spec

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, INFINITE)


@dataclass(frozen=True)
class Steering:
    """How the policy is steered: what is the same for every guide."""

    policy: str
    method: str | None = None
    """Of the decoder; None for tilt."""
    k: int | None = None
    base: str | None = None
    policy_shown: bool = False

    def check(self, *, guided: bool, relative: bool) -> None:
        """Raise `UsageError` for an option that means nothing beside the others."""
        if guided:
            if self.base is not None:
                raise UsageError(
                    f"--compared-with {self.base}: a guided policy is compared with itself; "
                    "leave it out"
                )
        elif self.method is not None:
            raise UsageError("--score decoder: a decoder needs a guide; name a scorer by -s")
        elif self.policy_shown:
            raise UsageError("--show-policy: without a guide (-s) the policy is shown what -c says")
        elif relative and self.with_itself:
            raise UsageError(
                "--relative makes units of scorers alike; name a scorer by -s, or leave it out"
            )
        if self.method is not None and self.method not in TOKEN_METHODS:
            near = get_close_matches(self.method, TOKEN_METHODS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(
                f"--method {self.method}: expected one of {', '.join(TOKEN_METHODS)}{hint}"
            )
        if self.k is not None and self.method != "args":
            raise UsageError(f"--candidates {self.k}: it goes with --method args")
        if self.k is not None and self.k < 1:
            raise UsageError(f"--candidates {self.k}: expected 1 or more")

    @property
    def with_itself(self) -> bool:
        """True where a policy without a guide is compared with itself."""
        return self.base in (None, self.policy)

    def spec(self, guide: str | None, weights: Sequence[float] = (1.0,)) -> str:
        """Return the spec of the policy under a guide."""
        options = {
            "guide": guide,
            "base": self.base,
            "shown": "yes" if self.policy_shown else None,
            "method": self.method,
            "k": None if self.k is None else str(self.k),
        }
        if self.method is not None:
            options |= {"score": "decoder", "weight": ",".join(f"{w:.17g}" for w in weights)}
        given = {name: value for name, value in options.items() if value is not None}
        return str(Spec(kind="policy", reference=self.policy, options=given))

    @property
    def tilt(self) -> Steering:
        """The same by tilt, which costs one reading of policy and guide."""
        return replace(self, method=None, k=None)


@dataclass(frozen=True)
class SteeredCell:
    """A guide, or None, under a context."""

    guide: str | None
    context: str
    reads_choices: bool
    """Whether users' earlier choices have a part in its scores."""
    reads_posts: bool
    """Whether the context shows what a row's user wrote before."""


def least_weight(method: str | None) -> float:
    """Return what no weight may be below: a fusion's may be negative."""
    return -INFINITE if method in PRESETS else 0.0


def plan_cells(
    pairs: Dataset,
    guides: Sequence[str],
    steering: Steering,
    contexts: Sequence[str] | None,
    work: Work,
) -> list[SteeredCell]:
    """Return the cells that have a meaning; every spec is built, and so checked, before any runs.

    Raises `UsageError` where there is none, and `SpecError` for a judge as guide.
    """
    specs = None if contexts is None else with_controls(contexts, work.session, work.settings)
    for named in guides:
        if isinstance(work.scorer(named), Judge):
            raise SpecError(f"{named}: a judge gives a response no reward; name a scorer")
    listed = [*guides] or [steering.spec(None)]
    cells = []
    for cell in plan_grid([pairs], listed, specs, work):
        if cell.not_applicable:
            continue
        guide = cell.scorer if guides else None
        built = work.scorer(steering.spec(guide))
        needs = getattr(work.context(cell.context), "needs", ())
        reads = isinstance(built, StatefulPolicy) or "choices" in needs
        cells.append(SteeredCell(guide, cell.context, reads, "posts" in needs))
    if not guides and steering.with_itself and {cell.context for cell in cells} == {NOTHING}:
        raise UsageError(
            f"{steering.policy}: shown nothing, it is compared with itself; add a scorer (-s), a "
            "context (-c profile:5) or what it was tuned from (--compared-with)"
        )
    if not cells:
        raise UsageError("policy-accuracy: nothing has a meaning here; add -c profile:5")
    return cells


PAIRS = 200
"""Pairs that are drawn."""
LEAST = 20
"""Fewer are no set of their own; the next source is taken."""
SHARE = 4
"""Where nothing else is there, one in so many rows is set aside."""


class Split(NamedTuple):
    """The rows that are evaluated, and those that are not."""

    evaluated: Dataset
    reserved: Dataset | None = None
    source: Literal["adapt", "left out", "set aside"] | None = None


def split(
    pairs: Dataset, seed: int, *, relative: bool, reads_choices: bool, reads_posts: bool = False
) -> Split:
    """Reserve pairs of questions that are not evaluated, 200 at most.

    Earlier choices come first, unless some score reads them; relative weights then take rows that a
    limit or mirrors left out, or else whole questions out of the evaluated ones. Where users' posts
    are shown, rows without any reserve nothing.

    Raises `UsageError` where there are too few rows to set any aside.
    """
    questions = {row.key for row in pairs.rows}
    whole = (*pairs.everyone, *pairs.rows)

    def not_evaluated(rows: Sequence[object]) -> list[PreferencePair]:
        return [
            row
            for row in rows
            if isinstance(row, PreferencePair)
            and not row.tie
            and row.key not in questions
            and (row.profile or not reads_posts)
        ]

    past = [] if reads_choices else not_evaluated(pairs.history)
    if len(past) >= LEAST:
        drawn = replace(pairs, rows=_drawn(past, seed), everyone=whole, history=())
        return Split(pairs, as_mirrored(drawn), "adapt")
    if not relative:
        return Split(pairs)
    left = not_evaluated(pairs.everyone)
    if len(left) >= LEAST:
        drawn = replace(pairs, rows=_drawn(left, seed), everyone=whole)
        return Split(pairs, as_mirrored(drawn), "left out")
    aside: set[str] = set()
    wanted = min(PAIRS, len(pairs.rows) // SHARE)
    for question in shuffled(sorted(questions), "set aside", seed):
        if sum(row.key in aside for row in pairs.rows) >= wanted:
            break
        aside.add(question)
    if not aside or aside == questions:
        raise UsageError(
            f"{pairs.name}: {len(pairs.rows)} rows of {len(questions)} questions leave none to set "
            "the unit of relative weights; give more rows, or absolute weights (without --relative)"
        )
    evaluated, reserved = (
        tuple(row for row in pairs.rows if (row.key in aside) is which) for which in (False, True)
    )
    return Split(
        as_mirrored(replace(pairs, rows=evaluated, everyone=whole)),
        as_mirrored(replace(pairs, rows=reserved, everyone=whole)),
        "set aside",
    )


def _drawn(rows: Sequence[PreferencePair], seed: int) -> tuple[PreferencePair, ...]:
    # By content: which are drawn must not depend on the file's order.
    unique = {(row.content, row.id): row for row in rows}
    return tuple(unique[key] for key in shuffled(sorted(unique), "reserved", seed)[:PAIRS])
