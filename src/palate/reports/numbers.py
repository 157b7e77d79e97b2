"""Figures as text: three decimals, a true minus, a dash where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from palate.runs import Figure

NONE = "–"


def plain(value: float | None, *, signed: bool = False) -> str:
    """Return a figure; what rounds to zero has no minus.

    >>> plain(0.5), plain(-0.25, signed=True), plain(-1e-9, signed=True), plain(None)
    ('0.500', '−0.250', '+0.000', '–')
    """
    if value is None:
        return NONE
    text = f"{value:{'+' if signed else ''}z.3f}"
    return text.replace("-", "−")


def with_interval(
    value: float | None, low: float | None, high: float | None, *, signed: bool = False
) -> str:
    """Return a figure with its interval.

    >>> with_interval(0.77, 0.7, 0.84)
    '0.770 [0.700, 0.840]'
    """
    if value is None:
        return NONE
    if low is None or high is None:
        return f"{plain(value, signed=signed)} [{NONE}]"
    return f"{plain(value, signed=signed)} [{plain(low)}, {plain(high)}]"


def figure(found: Figure | None) -> str:
    """Return a figure of a summary."""
    return NONE if found is None else with_interval(found.value, found.low, found.high)


def p_value(p: float | None) -> str:
    """Return a p-value.

    >>> p_value(0.00001), p_value(0.0421)
    ('<0.001', '0.042')
    """
    if p is None:
        return NONE
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def seconds(time: float) -> str:
    """Return a time.

    >>> seconds(0.04), seconds(42.3), seconds(312)
    ('0.0 s', '42 s', '5:12')
    """
    if time < 10:
        return f"{time:.1f} s"
    return f"{time:.0f} s" if time < 90 else f"{int(time) // 60}:{int(time) % 60:02d}"


def without_interval(named: Iterable[tuple[str, str | None]]) -> Iterator[str]:
    """Yield a line for each reason why figures have no interval, with the figures it holds for.

    >>> few = "no interval: 1.0 effective questions, and more than 2 are needed"
    >>> list(without_interval([("longest", few), ("random", few), ("judge", None)]))
    ['longest; random: no interval: 1.0 effective questions, and more than 2 are needed.']
    """
    figures: dict[str, list[str]] = {}
    for name, reason in named:
        if reason is not None:
            figures.setdefault(reason, []).append(name)
    for reason, names in figures.items():
        yield f"{'; '.join(dict.fromkeys(names))}: {reason}."
