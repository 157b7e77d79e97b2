"""Whether a run's files agree with each other, with the data, and with what is scored afresh."""

from palate.verification.afresh import Rescoring
from palate.verification.verify import BUNDLED, CheckedRun, DataOfRuns, verify_run
