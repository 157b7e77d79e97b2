"""Grids made of summaries alone, as a screen reads them."""

from pathlib import Path

from palate.comparison import Grid
from palate.reports import screens
from palate.runs import Gain, ReportedEstimate, Run, Summary, Verdicts

BENCHMARK = "couples"
STRANGER = "profile:3?of=stranger"


def figure(value, half=0.05, n=48):
    return ReportedEstimate(value=value, low=value - half, high=value + half, n=n)


def run(scorer, context, value, *, benchmark=BENCHMARK, mirrored=True, ties=0, **more):
    accuracy = figure(value)
    fields = {
        "benchmark": benchmark, "scorer": scorer, "context": context, "n_pairs": 96,
        "n_users": 32, "accuracy": accuracy, "strict_accuracy": value, "bounds": (value, value),
        "ties": ties, "unscored": 0, "mirrored_accuracy": accuracy if mirrored else None,
        "macro_accuracy": None if mirrored else figure(value - 0.01),
        "length_controlled": None if mirrored else figure(value - 0.02), **more,
    }  # fmt: skip
    return Run(Summary(**fields), Verdicts(()))


def gain(scorer, kind, value, half=0.1, p_holm=None, context="profile:3", against=None, **more):
    against = against or (STRANGER if kind == "identity" else "none")
    return Gain(
        benchmark=BENCHMARK, scorer=scorer, context=context, kind=kind, against=against,
        value=value, low=value - half, high=value + half, n=48, n_users=32, p=p_holm,
        p_holm=p_holm, minimum_detectable_effect=1.4 * half, **more,
    )  # fmt: skip


def three(scorer, nothing, own, stranger, **more):
    """One scorer shown nothing, the user's own posts and a stranger's."""
    cells = [("none", nothing), ("profile:3", own), (STRANGER, stranger)]
    return [run(scorer, context, value, **more) for context, value in cells if value is not None]


def demo():
    """One scorer that knows the user, two that are not shown to, two that are blind."""
    runs, gains = [], []
    for scorer, figures, identity, half, p in (
        ("similarity:pypi:mini", (None, 0.75, 0.469), 0.281, 0.112, 0.0004),
        ("lift:pypi:small", (None, 0.635, 0.5), 0.135, 0.15, 0.142),
        ("likelihood:pypi:small", (0.5, 0.531, 0.51), 0.021, 0.03, 0.331),
        ("longest", (0.5, 0.5, 0.5), 0.0, 0.0, None),
        ("random", (0.5, 0.5, 0.5), 0.0, 0.0, None),
    ):
        runs += three(scorer, *figures)
        gains.append(gain(scorer, "identity", identity, half, p))
        if figures[0] is not None:
            gains.append(gain(scorer, "gain", figures[1] - figures[0], half, p and 0.9))
    return Grid(tuple(runs), (), tuple(gains))


def text(grid, width=100):
    """Return the one screen of a grid."""
    (screen,) = screens(grid, Path("runs"), hint=True)
    return screen.text(width)


def shown(runs, *gains, width=100):
    """Return the one screen of these runs and gains."""
    return text(Grid(tuple(runs), (), gains), width)
