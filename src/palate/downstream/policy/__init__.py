"""Policy accuracy: does a policy steered by a reward prefer what its user chose?"""

from palate.downstream.policy.accuracy import policy_accuracy
from palate.downstream.policy.planning import WEIGHTS, SteeredCell, least_weight
from palate.downstream.policy.reserved import Split
from palate.downstream.policy.result import PolicyAccuracy, PolicyCell, ReadingCurve

__all__ = [
    "WEIGHTS",
    "PolicyAccuracy",
    "PolicyCell",
    "ReadingCurve",
    "Split",
    "SteeredCell",
    "least_weight",
    "policy_accuracy",
]
