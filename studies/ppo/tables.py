"""All tables of the study and its picture, from FOLDER/figures.json.

python -m studies.ppo.tables studies/ppo > studies/ppo/tables.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from palate.reports import Form, Table, render
from palate.reports.numbers import NONE, p_value, plain, with_interval
from palate.reports.parts import panels, save
from studies.ppo.figures import Figures, on_curve
from studies.ppo.study import N


def main() -> None:
    """Print the tables of FOLDER/figures.json, and draw FOLDER/figures.png."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    figures = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    made = [gold(figures), training(figures), differences(figures), levels(figures)]
    sys.stdout.write(render(made, Form.MARKDOWN))
    draw(figures, folder / "figures.png")


def gold(figures: Figures) -> Table:
    """Return what each scorer's policies write, beside what the scorer picks."""
    rows = [
        [
            of["name"], plain((of["accuracy"] or {}).get("value")),
            _span(of["at_kl"]), _span(run["levels"][1]["kl"] for run in of["seeds"]),
            *_gain(of["gain"]), plain(of["gain"]["detectable"]), _on_curve(of, figures["kl"]),
            *_gain(of["best_of"]), *_gain(of["over_best_of"]), *_gain(of["last"]),
        ]
        for of in figures["scorers"]
    ]  # fmt: skip
    columns = ["scorer", "accuracy", "KL", "first read at", "gain by PPO [95 %]", "p", "detectable",
               "on a curve", "by best of 16 [95 %]", "p", "PPO over best of 16 [95 %]", "p",
               "after the last update [95 %]", "p"]  # fmt: skip
    notes = [
        f"ROUGE-1 with what the user wrote, over {figures['rows']} rows of {figures['users']} "
        f"held-out users. KL: {figures['kl']:.2f} nats, the most that the best of 16 is from the "
        "policy; less where training did not go so far. first read at: the KL of the first "
        "evaluation of each seed. gain by PPO: on a straight line in √KL. on a curve: the same by "
        "d (α − β log d), d = √KL, through the two evaluations of each seed. detectable: the "
        "smallest true gain that is found 8 times of 10."
    ]
    return Table("What users get at equal KL", columns, rows, notes)


def training(figures: Figures) -> Table:
    """Return what training did to the reward itself, by scorer and seed."""
    rows = []
    for of in figures["scorers"]:
        for seed, run in enumerate(of["seeds"]):
            first, last = run["levels"][0], run["levels"][-1]
            rows.append([
                of["name"], str(seed), f"{last['kl']:.1f}", *_gain(run["reward_gain"]),
                _interval(run["identity"]), *(
                    f"{first[name]:.{digits}f} → {last[name]:.{digits}f}"
                    for name, digits in (("entropy", 2), ("tokens", 1))
                ),
                f"{_percent(first['distinct'])} → {_percent(last['distinct'])}",
                f"{_percent(first['copied'])} → {_percent(last['copied'])}",
            ])  # fmt: skip
    columns = ["scorer", "seed", "KL", "reward gain [95 %]", "p", "over a stranger's [95 %]",
               "entropy", "tokens", "distinct", "copied"]  # fmt: skip
    notes = ["reward: in deviations of the untrained policy's, of answers that have one. copied: "
             "share of an answer's runs of four words that the policy was shown.",
             *_unscored(figures)]  # fmt: skip
    return Table("What training did to the reward", columns, rows, notes, 2)


def differences(figures: Figures) -> Table:
    """Return what two scorers' policies differ by, of the same rows at equal KL."""
    rows = [
        [of["first"], of["second"], *_gain(of), p_value(of["p_holm"]), plain(of["detectable"])]
        for of in figures["differences"]
    ]
    columns = ["scorer", "less", "difference [95 %]", "p", "by Holm", "detectable"]
    return Table("Do two scorers differ? ROUGE-1 at equal KL", columns, rows, [], 2)


def levels(figures: Figures) -> Table:
    """Return every evaluation on the way."""
    rows = [
        [of["name"], str(seed), str(each["update"]), f"{each['kl']:.2f}", plain(each["reward"]),
         plain(each["stranger"]), plain(each["quality"])]
        for of in figures["scorers"] for seed, run in enumerate(of["seeds"])
        for each in run["levels"]
    ]  # fmt: skip
    columns = ["scorer", "seed", "updates", "KL", "reward", "reading a stranger", "ROUGE-1"]
    return Table("Held-out users on the way", columns, rows, [], 3)


def draw(figures: Figures, file: Path) -> None:
    """Draw reward and quality against the distance from the start."""
    figure, axes = panels(1, 2, (4.4, 3.2))
    for ax, name, label in ((axes[0, 0], "reward", "own reward, deviations"),
                            (axes[0, 1], "quality", "ROUGE-1 with the user's text")):  # fmt: skip
        for k, of in enumerate(figures["scorers"]):
            for run in of["seeds"]:
                far, moved = _curve(run["levels"], name)
                title = of["name"] if run is of["seeds"][0] else None
                ax.plot(far, moved, marker="o", markersize=3, lw=1, color=f"C{k}", label=title)
            if name == "quality" and of["best_of"] is not None:
                ax.plot([figures["kl"] ** 0.5], [of["best_of"]["value"]], "x", color=f"C{k}")
        ax.set_xlabel("√KL from the start", fontsize=8)
        ax.set_ylabel(f"gain: {label}", fontsize=8)
        ax.axhline(0, color="0.8", lw=0.8, zorder=0)
        ax.tick_params(labelsize=7)
    axes[0, 0].legend(fontsize=7, frameon=False)
    axes[0, 1].set_title("× best of 16", fontsize=8, loc="left")
    save(figure, file)


def _curve(levels: Sequence[Figures], name: str) -> tuple[list[float], list[float]]:
    far = [float(np.sqrt(each["kl"])) for each in levels]
    return far, [each[name] - levels[0][name] for each in levels]


def _on_curve(of: Figures, kl: float) -> str:
    gains = [on_curve(run["levels"], kl) for run in of["seeds"]]
    known = [gain for gain in gains if gain is not None]
    return plain(float(np.mean(known)), signed=True) if len(known) == len(gains) else NONE


def _gain(of: Figures | None) -> tuple[str, str]:
    return _interval(of), p_value((of or {}).get("p"))


def _interval(of: Figures | None) -> str:
    if of is None:
        return NONE
    return with_interval(of["value"], of["low"], of["high"], signed=True)


def _unscored(figures: Figures) -> Iterator[str]:
    answers = figures["rows"] * N
    for of in figures["scorers"]:
        for seed, run in enumerate(of["seeds"]):
            if empty := run["levels"][-1]["unscored"]:
                yield f"{of['name']}, seed {seed}: {empty} of {answers} answers are empty at last."


def _span(values: Iterable[float]) -> str:
    return ", ".join(dict.fromkeys(f"{value:.2f}" for value in values))


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


if __name__ == "__main__":
    main()
