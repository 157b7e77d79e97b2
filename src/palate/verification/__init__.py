"""Whether a run's files agree with each other, with the data, and with what is scored afresh."""

from palate.verification.afresh import Rescoring
from palate.verification.data import DataOfRuns
from palate.verification.verify import CheckedRun, verify_run

__all__ = ["CheckedRun", "DataOfRuns", "Rescoring", "verify_run"]
