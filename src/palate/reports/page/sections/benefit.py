"""Section 10: what users get of a scorer, a part for each result of a kind that has one."""

from __future__ import annotations

from palate.reports.page.contents import Contents, parts_of
from palate.reports.page.parts import Section


def benefit(contents: Contents) -> Section:
    """Return what there is of every kind of result but runs."""
    parts = [
        part
        for number, result in enumerate(contents.others, 1)
        for part in parts_of(result.kind)(result, contents.names, number)
    ]
    return Section("benefit", "What users get", parts)
