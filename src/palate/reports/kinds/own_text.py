"""A build of users' own texts: its tables, and its part of a page."""

from __future__ import annotations

from collections.abc import Iterator

from palate.construction import OwnTextBuild
from palate.construction.blind import PROBE, WARN_ABOVE
from palate.construction.own_text.pairing import USELESS
from palate.reports.numbers import count, figure
from palate.reports.page.names import Names
from palate.reports.page.parts import Text
from palate.reports.table import Table, breaks_between


def tables(build: OwnTextBuild) -> list[Table]:
    """Return yields, what was left out and why, and how often blind scorers are right."""
    told = build.summary
    splits = [[split, *(count(n) for n in counts.values())] for split, counts in told.rows.items()]
    left_out = [
        (what, reason, count(n))
        for what, counts in build.dropped.items()
        for reason, n in counts.items()
    ]
    blind = [[name, figure(each), count(each.n)] for name, each in told.blind_scorers.items()]
    columns = ["split", "rows", "users", "inputs", "against authors", "against the model"]
    n_undated = told.undated_profile_items
    undated = (
        f"{n_undated:,} profile items stay whose order is not known: they or their questions "
        "have no date."
    )
    return [
        Table(f"own-text benchmark {told.benchmark}", columns, splits, _unused_model(build)),
        Table(
            "left out",
            ["what", "why", "number"],
            left_out,
            [undated] if n_undated else [],
            2,
            breaks_between(what for what, _, _ in left_out),
        ),
        Table(
            "blind scorers on the test rows",
            ["scorer", "accuracy [95 %]", "rows"],
            blind,
            [f"{PROBE}: counts of style, fitted on the other questions."],
        ),
    ]


def _unused_model(build: OwnTextBuild) -> list[str]:
    policy = build.summary.policy
    if policy is None or any(counts["against_model"] for counts in build.rows.values()):
        return []
    if any(reason in USELESS for counts in build.dropped.values() for reason in counts):
        return []
    return [f"{policy} was not used: every row has another author's text."]


def warning(build: OwnTextBuild) -> str | None:
    """Return what to say where blind scorers are right too often; None where they are not."""
    if not build.given_away:
        return None
    blind = build.summary.blind_scorers
    names = ", ".join(f"{name} {blind[name].value:.3f}" for name in build.given_away)
    model = build.rows["test"]["against_model"]
    why = "; human against model is no taste" if model else ""
    return f"warning: blind scorers are right above {WARN_ABOVE} ({names}){why}"


def parts(build: OwnTextBuild, names: Names, number: int) -> Iterator[object]:
    """Yield the tables, and the warning where there is one."""
    yield Text("How the benchmark was built", "h3")
    yield from (names.table(table) for table in tables(build))
    if text := warning(build):
        yield Text(text)
