"""Guided decoding as tables: quality and gains, and whether guidance acted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from palate.reports.names import legend, short_names
from palate.reports.numbers import NONE, counted, figure, p_value, plain, without_interval
from palate.reports.parts import section
from palate.reports.table import WIDTH, Table
from palate.uses.decode_result import DecodeResult, GuidedCell, GuidedQuality, TextFacts

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
    names = _Names.of(summary.cells)
    columns = [*names.columns, "quality", "gain [95 %]", "p", "over stranger [95 %]", "p"]
    for k, base in enumerate(summary.qualities):
        rows = [[*names.unguided, plain(base.mean.value), *[NONE] * 4]]
        figures: list[tuple[str, str | None]] = []
        for cell in summary.cells:
            own, name = cell.qualities[k], names.of_cell(cell)
            rows.append([*names.cells(cell), *_gains(own)])
            figures.append((f"{name}, gain", own.gain.note))
            if own.identity_gain is not None:
                figures.append((f"{name}, over stranger", own.identity_gain.note))
        of = f"{summary.benchmark}: {answers_phrase(result)} by {summary.policy}{names.guided_by}"
        title = f"{of}, {base.quality}{' (a surrogate)' * base.surrogate}"
        notes = [NOTE, *without_interval(figures), *_left_out(result, k, names)]
        notes += legend(names.scorers, end="")
        yield Table(title, columns, rows, notes, len(names.columns), frozenset({0}), width=WIDTH)


def _acting(result: DecodeResult) -> Table:
    summary = result.summary
    names = _Names.of(summary.cells)
    columns = [*names.columns, "reward [95 %]", "KL", "words", "cut off", "distinct", "tokens"]
    rows = [[*names.unguided, NONE, NONE, *_text(summary.text), NONE]]
    for cell in summary.cells:
        acted = cell.guiding
        bound = acted.divergence_bound
        kl = plain(acted.divergence) if bound is None else f"≤{plain(bound)}"
        tokens = f"{acted.tokens['policy']:,.0f} + {acted.tokens['guide']:,.0f}"
        reward = figure(acted.reward, signed=True)
        rows.append([*names.cells(cell), reward, kl, *_text(acted.text), tokens])
    notes = [
        f"{names.scorers[cell.scorer]}: {note}" for cell in summary.cells for note in cell.notes
    ]
    notes = [ACTED, *dict.fromkeys(notes)]
    title = f"did guidance act? answers{names.guided_by}"
    return Table(title, columns, rows, notes, len(names.columns), frozenset({0}), width=WIDTH)


class _Names(NamedTuple):
    """What tells cells apart: context, and scorer and method where there are several."""

    scorers: Mapping[str, str]
    columns: Mapping[str, Callable[[GuidedCell], str]]
    guided_by: str
    """The scorer and the method that all cells share."""

    @classmethod
    def of(cls, cells: Sequence[GuidedCell]) -> Self:
        scorers = short_names(cell.scorer for cell in cells)
        columns: dict[str, Callable[[GuidedCell], str]] = {"context": scorers.columns["context"]}
        shared: list[str] = []
        methods = {cell.method_name for cell in cells}
        if len(scorers) > 1:
            columns["scorer"] = scorers.columns["scorer"]
        else:
            shared += scorers.values()
        if len(methods) > 1:
            columns["method"] = lambda cell: cell.method_name
        else:
            shared += methods
        return cls(scorers, columns, f" guided by {' · '.join(shared)}" if shared else "")

    @property
    def unguided(self) -> list[str]:
        return [UNGUIDED, *[NONE] * (len(self.columns) - 1)]

    def cells(self, cell: GuidedCell) -> list[str]:
        return [show(cell) for show in self.columns.values()]

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


def _left_out(result: DecodeResult, k: int, names: _Names) -> Iterator[str]:
    for cell in result.summary.cells:
        name = names.of_cell(cell)
        if cell.left_out:
            yield f"{name}: rows left out: {'; '.join(counted(cell.left_out))}."
        if cell.qualities[k].unrated:
            reasons = "; ".join(counted(cell.qualities[k].unrated))
            yield f"{name}: answers without quality: {reasons}."


parts = section("Answers that a scorer guides", tables)
