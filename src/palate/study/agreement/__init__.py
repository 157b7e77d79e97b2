"""Agreement of a study's raters, and equal quality of two sets of answers."""

from palate.study.agreement.measure import agreement
from palate.study.agreement.result import Agreement, AgreementSummary, Figure, Panel

__all__ = ["Agreement", "AgreementSummary", "Figure", "Panel", "agreement"]
