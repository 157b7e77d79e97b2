"""Guided decoding as tables: quality and gains, and whether guidance acted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from palate.reports.names import context_name, legend, short_names
from palate.reports.numbers import NONE, counted, figure, p_value, plain, without_interval
from palate.reports.page.names import Names
from palate.reports.page.parts import Text
from palate.reports.screen import WIDTH
from palate.reports.table import Table
from palate.uses.decode import DecodeResult, GuidedCell
from palate.uses.decode.result import GuidedQuality, TextFacts

UNGUIDED = "no guide"
NOTE = (
    "gain is over the policy without a guide, over stranger over the same guide that reads a "
    "stranger; both are paired by row. p is Holm-corrected over this table."
)
ACTED = (
    "reward: the guide's own, guided less unguided, in its own unit (of autoregressive a sum of "
    "log-probabilities, of lift a mean per token). KL: estimated divergence from the policy, nats "
    "an answer; ≤: a bound. distinct: share of an answer's word pairs that differ. tokens: "
    "read by policy and guide for an answer."
)


def tables(result: DecodeResult) -> list[Table]:
    """Return a table per measure of quality, and one of whether guidance acted."""
    return [*_qualities(result), _acting(result)]


def _qualities(result: DecodeResult) -> Iterator[Table]:
    summary = result.summary
    who = _Names.of(summary.cells)
    columns = [*who.columns, "quality", "gain [95 %]", "p", "over stranger [95 %]", "p"]
    for k, base in enumerate(summary.qualities):
        rows = [[*who.unguided, plain(base.mean.value), *[NONE] * 4]]
        figures: list[tuple[str, str | None]] = []
        for cell in summary.cells:
            own = cell.qualities[k]
            rows.append([*who.cells(cell), *_gains(own)])
            figures += _reasons(who.of_cell(cell), own)
        quality = f"{base.quality} (a surrogate)" if base.surrogate else base.quality
        of = f"{summary.benchmark}: {answers_phrase(result)} by {summary.policy}"
        title = f"{of}{who.guided_by}, {quality}"
        notes = [NOTE, *without_interval(figures), *_left_out(result, k, who)]
        notes += legend(who.scorers, end="")
        yield Table(title, columns, rows, notes, len(who.columns), frozenset({0}), width=WIDTH)


def _acting(result: DecodeResult) -> Table:
    summary = result.summary
    who = _Names.of(summary.cells)
    columns = [*who.columns, "reward [95 %]", "KL", "words", "cut off", "distinct", "tokens"]
    rows = [[*who.unguided, NONE, NONE, *_text(summary.text), NONE]]
    for cell in summary.cells:
        acted = cell.guiding
        bound = acted.divergence_bound
        kl = plain(acted.divergence) if bound is None else f"≤{plain(bound)}"
        tokens = f"{acted.tokens['policy']:,.0f} + {acted.tokens['guide']:,.0f}"
        reward = figure(acted.reward, signed=True)
        rows.append([*who.cells(cell), reward, kl, *_text(acted.text), tokens])
    told = dict.fromkeys(
        f"{who.scorers[c.scorer]}: {note}" for c in summary.cells for note in c.notes
    )
    notes = [ACTED, *told]
    title = f"did guidance act? answers{who.guided_by}"
    return Table(title, columns, rows, notes, len(who.columns), frozenset({0}), width=WIDTH)


class _Names(NamedTuple):
    """What tells cells apart: context, and scorer and method where there are several."""

    scorers: Mapping[str, str]
    several: tuple[bool, bool]
    guided_by: str
    """The scorer and the method that all cells share."""

    @classmethod
    def of(cls, cells: Sequence[GuidedCell]) -> Self:
        scorers = short_names([cell.scorer for cell in cells])
        methods = {cell.method_name for cell in cells}
        several = len(scorers) > 1, len(methods) > 1
        shared = [*scorers.values()] if not several[0] else []
        shared += [*methods] if not several[1] else []
        return cls(scorers, several, f" guided by {' · '.join(shared)}" if shared else "")

    @property
    def columns(self) -> list[str]:
        scorer, method = self.several
        return ["context", *["scorer"] * scorer, *["method"] * method]

    @property
    def unguided(self) -> list[str]:
        return [UNGUIDED, *[NONE] * sum(self.several)]

    def cells(self, cell: GuidedCell) -> list[str]:
        scorer, method = self.several
        context = context_name(cell.context, oracle=cell.oracle)
        return [context, *[self.scorers[cell.scorer]] * scorer, *[cell.method_name] * method]

    def of_cell(self, cell: GuidedCell) -> str:
        return " · ".join(self.cells(cell))


def answers_phrase(result: DecodeResult) -> str:
    """Return how many answers there are of how many rows, in words."""
    n, rows = result.summary.n, len(result.rows)
    couples = "" if result.mirrors is None else f" ({rows // 2:,} mirrored couples)"
    return f"{n:,} {'answer' if n == 1 else 'answers'} to each of {rows:,} rows{couples}"


def _gains(rated: GuidedQuality) -> list[str]:
    identity = rated.identity_gain
    return [
        plain(rated.mean.value),
        figure(rated.gain, signed=True),
        p_value(rated.p_holm),
        NONE if identity is None else figure(identity, signed=True),
        p_value(rated.identity_p_holm),
    ]


def _text(text: TextFacts) -> list[str]:
    return [f"{text.words:.1f}", f"{text.cut_off:.0%}", plain(text.distinct_bigrams)]


def _reasons(name: str, own: GuidedQuality) -> list[tuple[str, str | None]]:
    figures = {"gain": own.gain, "over stranger": own.identity_gain}
    return [
        (f"{name}, {which}", None if found is None else found.note)
        for which, found in figures.items()
    ]


def _left_out(result: DecodeResult, k: int, who: _Names) -> Iterator[str]:
    for cell in result.summary.cells:
        name = who.of_cell(cell)
        if cell.left_out:
            yield f"{name}: rows left out: {'; '.join(counted(cell.left_out))}."
        if cell.qualities[k].unrated:
            reasons = "; ".join(counted(cell.qualities[k].unrated))
            yield f"{name}: answers without quality: {reasons}."


def parts(result: DecodeResult, names: Names, number: int) -> Iterator[object]:
    """Yield the tables."""
    del number
    yield Text("Answers that a scorer guides", "h3")
    yield from (names.table(table) for table in tables(result))
