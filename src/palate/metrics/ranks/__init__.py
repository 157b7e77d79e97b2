"""Agreement of two rankings of scorers, and how little a few scorers can show."""

from palate.metrics.ranks.agreement import RankAgreement, kendall_agreement, rank_agreement
from palate.metrics.ranks.difference import AgreementDifference, agreement_difference
from palate.metrics.ranks.power import RankPower, rank_power
from palate.metrics.ranks.reliability import Reliability, reliability
from palate.metrics.ranks.statistics import ranks_of

__all__ = [
    "AgreementDifference",
    "RankAgreement",
    "RankPower",
    "Reliability",
    "agreement_difference",
    "kendall_agreement",
    "rank_agreement",
    "rank_power",
    "ranks_of",
    "reliability",
]
