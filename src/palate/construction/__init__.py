"""Makes benchmarks of what users wrote, and checks whether pairs differ by taste alone."""

from palate.construction.audit import audit
from palate.construction.audit_records import Audit, AuditRow, AuditSummary
from palate.construction.own_text import OwnTextBuild, OwnTextSummary, build_own_text
from palate.construction.pair_records import PairsBuild, PairsOptions, PairsSummary
from palate.construction.pairs import build_pairs
from palate.construction.rows import Dropped, Stage, StageCounts
