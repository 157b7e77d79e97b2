"""All tables of the study and its picture, from FOLDER/figures.json.

F=studies/selection_crisis; python -m studies.selection_crisis.tables $F > $F/tables.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palate.metrics.ranks import LEAST_SCORERS
from palate.reports import Form, Table, context_name, render
from palate.reports.names import short_names
from palate.reports.numbers import NONE, p_value, plain, with_interval
from palate.reports.parts import panels, save
from palate.specs import Spec
from studies.selection_crisis.figures import DECODED, along
from studies.selection_crisis.study import mirror_image

Figures = dict[str, Any]
READINGS = ("sum", "mean", "ratio")


def main() -> None:
    """Print the tables of FOLDER/figures.json, and draw FOLDER/figures.png."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    figures = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    ranking, writing = figures["ranking"], figures["writing"]
    tables = [agreement(ranking), ways(writing), acting(writing)]
    tables += [guides(name, result) for name, result in ranking.items()]
    sys.stdout.write(render([table for table in tables if table.rows], Form.MARKDOWN))
    draw(ranking, writing, folder / "figures.png")


def agreement(ranking: Mapping[str, Figures]) -> Table:
    """Return τ of reward and policy accuracy along the weights, by set and reading."""
    weights = list(dict.fromkeys(weight for result in ranking.values()
                                 for weight in result["weights"] if weight))  # fmt: skip
    decoded = {each["scorer"] for each in ranking.get(DECODED, {"guides": []})["guides"]}
    rows = []
    for name, result in ranking.items():
        title, guides = _title(name), result["guides"]
        rows += [
            _along(title, reading, guides, result["agreements"], weights) for reading in READINGS
            # With tilt the ratio is the reward itself.
            if not (result["score"] == "tilt" and reading == "ratio")
        ]  # fmt: skip
        rows += _without_mirrors(title, result, guides, weights)
        if "of_decoded" in result:
            both = [each for each in guides if each["scorer"] in decoded]
            title += ", the decoder's guides"
            rows.append(_along(title, "sum", both, result["of_decoded"], weights))
            rows += _without_mirrors(title, result, both, weights)
    columns = ["set, score", "read as", "guides", "reward accuracy",
               *(f"τ at λ = {weight}" for weight in weights)]  # fmt: skip
    notes = [
        "τ: Kendall's τ-b of the accuracies of reward and steered policy, and its p against random "
        "rankings. A guide is a scorer under one context. absolute: λ is the weight itself. "
        "Mirror images are guides that are another one turned round: shortest, what is learnt from "
        "reversed choices, and differences taken the other way."
    ]
    rows = [row for row in rows if any(cell != NONE for cell in row[4:])]
    return Table("Does the better reward make the better policy?", columns, rows, notes, 2)


def _without_mirrors(
    title: str, result: Figures, guides: Sequence[Figures], weights: Sequence[Any]
) -> list[list[str]]:
    left = [each for each in guides if not mirror_image(each["scorer"])]
    if not LEAST_SCORERS <= len(left) < len(guides):
        return []
    name = f"{title}, without mirror images"
    return [_along(name, "sum", left, along(result, left), weights)]


def _along(
    name: str, reading: str, guides: Sequence[Figures], agreements: Sequence[Figures],
    weights: Sequence[Any],
) -> list[str]:  # fmt: skip
    along = {each["weight"]: each for each in agreements if each["reading"] == reading}
    rewards = [each["reward"] for each in guides if each["reward"] is not None]
    span = f"{plain(min(rewards))} to {plain(max(rewards))}" if rewards else NONE
    n = max((each["n"] for each in along.values()), default=0)
    return [name, reading, str(n), span, *(_tau(along.get(weight)) for weight in weights)]


def _tau(each: Figures | None) -> str:
    if each is None or each["tau"] is None:
        return NONE
    return f"{plain(each['tau'])} ({p_value(each['p'])})"


def guides(name: str, result: Figures) -> Table:
    """Return the guides of one set and score, the better reward first."""
    names = _names(result["guides"])
    rows = [
        [
            names[each["scorer"]], context_name(each["context"]), plain(each["reward"]),
            plain(each["policy"]), _interval(each["steered"]), _interval(each["gain"], signed=True),
            p_value(each["p"]), ", ".join(map(str, each["chosen"])),
        ]
        for each in sorted(result["guides"], key=lambda each: -(each["reward"] or 0))
    ]  # fmt: skip
    columns = ["guide", "shown", "reward", "policy", "steered", "gain [95 %]", "p", "λ"]
    missed = [each["misses"] for each in result["guides"] if each["misses"]]
    notes = [f"{result['rows']} rows; sums, at the λ chosen on other questions."]
    if missed:
        notes.append(f"Tokens that are no candidate: {max(missed):.1%} at most.")
    return Table(f"{_title(name)}: accuracy of reward and policy", columns, rows, notes, 2)


def ways(writing: Sequence[Figures]) -> Table:
    """Return what each way of writing is worth to its user."""
    names = _names([way for way in writing if "guide" in way])
    rows = [
        [
            *_way(way, names), NONE if "words" not in way else f"{way['words']:.0f}",
            _interval(way["quality"]), _interval(way.get("gain"), signed=True),
            p_value((way.get("gain") or {}).get("p")),
            plain((way.get("gain") or {}).get("detectable")),
            _interval(way.get("over_stranger"), signed=True),
            plain((way.get("over_stranger") or {}).get("detectable")),
        ]
        for way in writing
    ]  # fmt: skip
    columns = ["written by", "guide", "shown", "words", "ROUGE-1", "gain [95 %]", "p", "detectable",
               "over a stranger's [95 %]", "detectable"]  # fmt: skip
    notes = [
        "gain: over the policy alone, paired by row; p as it is. over a stranger's: the same way "
        "with a stranger's text or state. detectable: the smallest true difference that is found 8 "
        "times of 10 at p < 0.05."
    ]
    return Table("What is written, by overlap with the user's own text", columns, rows, notes, 3)


def acting(writing: Sequence[Figures]) -> Table:
    """Return whether guidance acted."""
    guided = [way for way in writing if "reward" in way]
    names = _names(guided)
    rows = [
        [
            *_way(way, names), _interval(way["reward"], signed=True), plain(way["divergence"]),
            f"{way['words']:.0f}", f"{way['cut_off']:.0%}", plain(way["distinct"]),
            " + ".join(f"{tokens:.0f}" for tokens in way["tokens"].values()),
            _interval(way["contrast"]),
        ]
        for way in guided
    ]  # fmt: skip
    columns = ["written by", "guide", "shown", "reward [95 %]", "KL", "words", "cut off",
               "distinct", "tokens", "contrast [95 %]"]  # fmt: skip
    alone = {f"{way['words_alone']:.0f}" for way in guided}
    notes = [
        "reward: the guide's own, guided less unguided. contrast: ½ where both users of a couple "
        f"are served alike. Without a guide an answer has {', '.join(sorted(alone))} words."
    ]
    return Table("Did guidance act?", columns, rows, notes, 3)


def _way(way: Figures, names: Mapping[str, str]) -> list[str]:
    weight = way.get("weight")
    by = way["way"] if weight is None else f"{way['way']}, w = {weight:g}"
    shown = context_name(way["shown"]) if "shown" in way else NONE
    return [by, names.get(way.get("guide", ""), NONE), shown]


def _interval(estimate: Figures | None, *, signed: bool = False) -> str:
    if estimate is None:
        return NONE
    return with_interval(estimate["value"], estimate["low"], estimate["high"], signed=signed)


def draw(ranking: Mapping[str, Figures], writing: Sequence[Figures], file: Path) -> None:
    """Draw accuracy of reward and policy over guides, and what each way of writing gains."""
    shown = [name for name in ("votes-tilt", "votes-decoder") if name in ranking]
    figure, axes = panels(1, len(shown) + bool(writing), (4.2, 4.0))
    of_guides = {
        name: [(each["reward"], each["steered"]["value"]) for each in ranking[name]["guides"]]
        for name in shown
    }
    every = [value for points in of_guides.values() for point in points for value in point]
    ends = (min(every, default=0) - 0.02, max(every, default=1) + 0.02)
    for ax, (name, points) in zip(axes[0], of_guides.items(), strict=False):
        result = ranking[name]
        ax.set(xlim=ends, ylim=ends)  # the same in all, so that steepness can be compared
        ax.scatter(*zip(*points, strict=True), s=16)
        base = result["guides"][0]["policy"]
        ax.axhline(base, color="0.6", linewidth=0.8)
        ax.annotate("the policy alone", (min(x for x, _ in points), base), fontsize=7,
                    xytext=(0, 3), textcoords="offset points", color="0.4")  # fmt: skip
        ax.set_xlabel("accuracy of the reward")
        ax.set_ylabel("accuracy of the steered policy")
        ax.set_title(_title(name), fontsize=9, loc="left")
    if writing:
        _gains(axes[0][-1], [way for way in writing if way.get("gain")])
    save(figure, file)


def _gains(ax: Any, writing: Sequence[Figures]) -> None:
    names = _names([way for way in writing if "guide" in way])
    for k, way in enumerate(writing):
        gain = way["gain"]
        ax.plot([gain["low"], gain["high"]], [-k, -k], color="C0", linewidth=1)
        ax.plot(gain["value"], -k, "o", color="C0", markersize=3)
    ax.axvline(0, color="0.6", linewidth=0.8)
    labels = (
        " ".join(part for part in _way(way, names) if part not in (NONE, "none")) for way in writing
    )
    ax.set_yticks([-k for k in range(len(writing))], list(labels), fontsize=6)
    ax.set_xlabel("gain in ROUGE-1 over the policy alone")
    ax.set_title("writing", fontsize=9, loc="left")


def _names(ways: Sequence[Figures]) -> dict[str, str]:
    """Return a short name of each guide: what it was learnt from, and its state."""
    specs = list(dict.fromkeys(way.get("guide") or way["scorer"] for way in ways))
    named = {}
    for spec in specs:
        parsed = Spec.parse(spec)
        model = _last(parsed.reference or "")
        if parsed.kind == "personal":
            named[spec] = f"{model} {parsed.options.get('state', 'own')}"
            continue
        against = _last(parsed.options.get("reference", ""))
        named[spec] = " ".join(part for part in (parsed.kind, model, against) if part)
    return named if len({*named.values()}) == len(specs) else short_names(specs)


def _title(name: str) -> str:
    """Return set, score and unit of a result.

    >>> _title("votes-tilt-absolute"), _title("author-in-context")
    ('votes, tilt, absolute', 'author, in context')
    """
    return name.replace("in-context", "in context").replace("-", ", ")


def _last(reference: str) -> str:
    return reference.rsplit("/", 1)[-1].removeprefix("pypi:")


if __name__ == "__main__":
    main()
