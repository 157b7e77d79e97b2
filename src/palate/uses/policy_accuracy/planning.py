"""The plan of policy accuracy: how the policy is steered, by whom, under which contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from palate.benchmarks import Dataset
from palate.comparison import plan_grid
from palate.contexts import NOTHING, with_controls
from palate.errors import SpecError, UsageError
from palate.evaluation import Work
from palate.guidance import PRESETS, TOKEN_METHODS
from palate.metrics.policy import INFINITE
from palate.records import Judge
from palate.scorers.tilted_policy import StatefulPolicy, read_weight
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


def read_weights(weights: Sequence[float], least: float) -> tuple[float, ...]:
    """Return weights sorted, each once; raises `SpecError` for what is no weight."""
    return tuple(sorted({read_weight(str(weight), "weights", least) for weight in weights}))


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
