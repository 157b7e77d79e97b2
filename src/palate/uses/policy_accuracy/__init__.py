"""Policy accuracy: does a policy steered by a reward prefer what its user chose?"""

from palate.uses.policy_accuracy.planning import WEIGHTS, SteeredCell, least_weight
from palate.uses.policy_accuracy.policy_accuracy import policy_accuracy
from palate.uses.policy_accuracy.reserved import Split
from palate.uses.policy_accuracy.result import (
    CurvePoint,
    PolicyAccuracy,
    PolicyAgreement,
    PolicyCell,
    PolicySummary,
    ReadingCurve,
    Reserved,
)

__all__ = [
    "WEIGHTS",
    "CurvePoint",
    "PolicyAccuracy",
    "PolicyAgreement",
    "PolicyCell",
    "PolicySummary",
    "ReadingCurve",
    "Reserved",
    "Split",
    "SteeredCell",
    "least_weight",
    "policy_accuracy",
]
