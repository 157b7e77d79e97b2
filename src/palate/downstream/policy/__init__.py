"""Policy accuracy: does a policy steered by a reward prefer what its user chose?"""

from palate.downstream.policy.accuracy import policy_accuracy
from palate.downstream.policy.planning import WEIGHTS
from palate.downstream.policy.result import PolicyAccuracy, PolicyCell, ReadingCurve

__all__ = ["WEIGHTS", "PolicyAccuracy", "PolicyCell", "ReadingCurve", "policy_accuracy"]
