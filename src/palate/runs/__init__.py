"""Results on disk: manifest, append-only journal, rows, summary."""

from palate.runs.journal import Journal, Line, line_at, located_lines, locked
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
from palate.runs.result import (
    Printed,
    RecordResult,
    Result,
    ResultSource,
    Tabular,
    as_document,
    check_sums,
    load,
    load_all,
    read_content,
)
from palate.runs.row import RatedPair, TextHash, VerdictRow
from palate.runs.run import Run, load_runs, noise_of
from palate.runs.summary import (
    Cost,
    Gain,
    MemberReport,
    Members,
    Noise,
    RatingBaseline,
    RatingReport,
    ReportedEstimate,
    RunLabel,
    SubgroupEstimate,
    SubgroupGap,
    SubgroupReport,
    Summary,
    Test,
    holm_within,
    with_holm,
)
from palate.runs.verdicts import Verdicts
