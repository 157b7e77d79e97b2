"""How well one ranking of scorers predicts another, and how little a few scorers can show."""

from palate.metrics.ranks.agreement import RankAgreement, rank_agreement
from palate.metrics.ranks.chance import Chance
from palate.metrics.ranks.difference import AgreementDifference, agreement_differences
from palate.metrics.ranks.over_scorers import Range
from palate.metrics.ranks.reliability import Reliability, reliability
from palate.metrics.ranks.resolution import Resolution, resolution
from palate.metrics.ranks.statistics import Statistic, statistics

__all__ = [
    "AgreementDifference",
    "Chance",
    "Range",
    "RankAgreement",
    "Reliability",
    "Resolution",
    "Statistic",
    "agreement_differences",
    "rank_agreement",
    "reliability",
    "resolution",
    "statistics",
]
