"""Results on disk: manifest, append-only journal, rows, summary."""

from palate.runs.groups import Gap, GroupFigure, GroupView, Losing
from palate.runs.journal import Journal, Line, line_at, located_lines
from palate.runs.manifest import (
    JOURNAL,
    MANIFEST,
    ROWS,
    SCHEMA,
    SUMMARY,
    Identity,
    Manifest,
    passes_of,
    read_manifest,
    result_folders,
    slug,
    versions,
)
from palate.runs.rated import Rated
from palate.runs.ratings import RatingBaseline, RatingFigures
from palate.runs.result import (
    RecordResult,
    Result,
    Tabular,
    as_document,
    load,
    load_all,
    read_content,
)
from palate.runs.row import TextHash, VerdictRow
from palate.runs.run import Run, load_runs
from palate.runs.summary import Figure, Gain, Side, Summary, Test, holm_within
from palate.runs.verdicts import Verdicts

__all__ = [
    "JOURNAL",
    "MANIFEST",
    "ROWS",
    "SCHEMA",
    "SUMMARY",
    "Figure",
    "Gain",
    "Gap",
    "GroupFigure",
    "GroupView",
    "Identity",
    "Journal",
    "Line",
    "Losing",
    "Manifest",
    "Rated",
    "RatingBaseline",
    "RatingFigures",
    "RecordResult",
    "Result",
    "Run",
    "Side",
    "Summary",
    "Tabular",
    "Test",
    "TextHash",
    "VerdictRow",
    "Verdicts",
    "as_document",
    "holm_within",
    "line_at",
    "load",
    "load_all",
    "load_runs",
    "located_lines",
    "passes_of",
    "read_content",
    "read_manifest",
    "result_folders",
    "slug",
    "versions",
]
