"""Figures as text: three decimals, a true minus, a dash where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from markupsafe import Markup

from palate.metrics import Estimate, ForecastShare, RankAgreement, Skill
from palate.runs import Gain, ReportedEstimate, SubgroupGap, Test

WithInterval = ReportedEstimate | Estimate | Gain | SubgroupGap | Test | Skill | ForecastShare


class Number(str):
    """A number as it is printed, with the number itself; None where there is none."""

    value: float | None
    low: float | None
    high: float | None
    has_interval: bool

    def __new__(cls, text: str, value: float | None = None, *interval: float | None) -> Number:
        """Keep the number beside its text; `interval` is both ends, where the text gives them."""
        number = super().__new__(cls, text)
        number.value = value
        number.low, number.high = interval or (None, None)
        number.has_interval = bool(interval)
        return number

    @property
    def sort_key(self) -> str:
        """What the page sorts by: digits, dots and signs alone; without a number at the end."""
        return "-999999999" if self.value is None else f"{self.value:.9f}"

    def __html__(self) -> str:
        words, bracket, interval = str(self).partition(" [")
        ends = Markup(' <span class="ci">[{}</span>').format(interval) if bracket else ""
        return Markup("{}{}").format(words, ends)


NONE = Number("–")


def plain(value: float | None, *, signed: bool = False) -> Number:
    """Return a figure; what rounds to zero has no minus.

    >>> plain(0.5), plain(-0.25, signed=True), plain(-1e-9, signed=True), plain(None)
    ('0.500', '−0.250', '+0.000', '–')
    """
    if value is None:
        return NONE
    text = f"{value:{'+' if signed else ''}z.3f}"
    return Number(text.replace("-", "−"), value)


def many(n: int, noun: str) -> str:
    """Return a number of things.

    >>> many(1, "row"), many(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def with_interval(
    value: float | None, low: float | None, high: float | None, *, signed: bool = False
) -> Number:
    """Return a figure with its interval.

    >>> with_interval(0.77, 0.7, 0.84)
    '0.770 [0.700, 0.840]'
    """
    if value is None:
        return Number(NONE, None, None, None)
    ends = NONE if low is None or high is None else f"{plain(low)}, {plain(high)}"
    return Number(f"{plain(value, signed=signed)} [{ends}]", value, low, high)


def figure(found: WithInterval | None, *, signed: bool = False) -> Number:
    """Return a figure with its interval."""
    if found is None:
        return with_interval(None, None, None)
    return with_interval(found.value, found.low, found.high, signed=signed)


def rank_correlation(agreement: RankAgreement) -> Number:
    """Return a rank correlation with its interval."""
    return with_interval(agreement.value, agreement.interval.low, agreement.interval.high)


def point(found: ReportedEstimate | None) -> Number:
    """Return a figure of a summary without its interval."""
    return plain(found.value if found else None)


def p_value(p: float | None) -> Number:
    """Return a p-value.

    >>> p_value(0.00001), p_value(0.0421)
    ('<0.001', '0.042')
    """
    if p is None:
        return NONE
    return Number("<0.001" if p < 0.001 else f"{p:.3f}", p)


def count(n: int) -> Number:
    """Return a whole number.

    >>> count(20550), count(20550).value
    ('20,550', 20550)
    """
    return Number(f"{n:,}", n)


def seconds(time: float) -> Number:
    """Return a time.

    >>> seconds(0.04), seconds(42.3), seconds(312)
    ('0.0 s', '42 s', '5:12')
    """
    if time < 10:
        text = f"{time:.1f} s"
    else:
        text = f"{time:.0f} s" if time < 90 else f"{int(time) // 60}:{int(time) % 60:02d}"
    return Number(text, time)


def counted(counts: Mapping[str, int]) -> list[str]:
    """Return what there is of each thing, without those of which there is none.

    >>> counted({"pairs": 1200, "users": 0})
    ['1,200 pairs']
    """
    return [f"{n:,} {what}" for what, n in counts.items() if n]


def most_common(counts: Mapping[str, int], noun: str, most: int = 2) -> str:
    """Return the most frequent things with their counts, and how many others there are.

    >>> most_common({"HTTP 400": 7, "too long": 1200, "cut off": 1}, "rows")
    'too long (1,200 rows); HTTP 400 (7 rows); 1 other reason'
    """
    listed = sorted(counts.items(), key=lambda of: (-of[1], of[0]))
    told = [
        f"{what} ({n:,} {noun if n > 1 else noun.removesuffix('s')})" for what, n in listed[:most]
    ]
    if more := len(listed) - most if len(listed) > most else 0:
        told.append(f"{more} other reason{'s' if more > 1 else ''}")
    return "; ".join(told)


def without_interval(named: Iterable[tuple[str, str | None]], between: str = "; ") -> Iterator[str]:
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
        yield f"{between.join(dict.fromkeys(names))}: {reason}."
