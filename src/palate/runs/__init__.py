"""Results on disk: manifest, append-only journal, rows, summary."""

from palate.runs.holm import holm_within, with_holm
from palate.runs.journal import Journal, Line, line_at, located_lines
from palate.runs.lock import locked
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
from palate.runs.noise import Noise, noise_of, noisy_verdicts
from palate.runs.rated import RatedPair
from palate.runs.ratings import RatingBaseline, RatingReport
from palate.runs.result import (
    Printed,
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
from palate.runs.subgroups import SubgroupEstimate, SubgroupGap, SubgroupReport
from palate.runs.summary import Gain, ReportedEstimate, RunLabel, Summary, Test
from palate.runs.verdicts import Verdicts

__all__ = [
    "JOURNAL",
    "MANIFEST",
    "ROWS",
    "SCHEMA",
    "SUMMARY",
    "Gain",
    "Identity",
    "Journal",
    "Line",
    "Manifest",
    "Noise",
    "Printed",
    "RatedPair",
    "RatingBaseline",
    "RatingReport",
    "RecordResult",
    "ReportedEstimate",
    "Result",
    "Run",
    "RunLabel",
    "SubgroupEstimate",
    "SubgroupGap",
    "SubgroupReport",
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
    "locked",
    "noise_of",
    "noisy_verdicts",
    "passes_of",
    "read_content",
    "read_manifest",
    "result_folders",
    "slug",
    "versions",
    "with_holm",
]
