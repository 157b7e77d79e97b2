"""Runs on disk: manifest, append-only journal, verdicts, summary."""

from palate.runs.folder import (
    Identity,
    Manifest,
    passes_of,
    read_manifest,
    run_folders,
    slug,
    versions,
)
from palate.runs.groups import Gap, GroupFigure, GroupView, Losing
from palate.runs.journal import Journal, Line, line_at, located_lines, read_journal
from palate.runs.rated import Rated, RatedColumns
from palate.runs.ratings import RatingBaseline, RatingFigures
from palate.runs.results import Figure, Gain, Side, Summary, Test, as_json
from palate.runs.row import VerdictRow
from palate.runs.run import Run, load_run, load_runs
from palate.runs.verdicts import Verdicts

__all__ = [
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
    "RatedColumns",
    "RatingBaseline",
    "RatingFigures",
    "Run",
    "Side",
    "Summary",
    "Test",
    "VerdictRow",
    "Verdicts",
    "as_json",
    "line_at",
    "load_run",
    "load_runs",
    "located_lines",
    "passes_of",
    "read_journal",
    "read_manifest",
    "run_folders",
    "slug",
    "versions",
]
