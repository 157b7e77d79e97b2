"""How far a study's raters agree, and whether they find two sets of answers equally good."""

from palate.study.agreement.measure import agreement
from palate.study.agreement.result import Agreement, AgreementSummary, Figure, Panel

__all__ = ["Agreement", "AgreementSummary", "Figure", "Panel", "agreement"]
