"""Log-probabilities of labels, from the alternatives of a first token that a server lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log

MARKS = "▁ĠĊ \t\n"
"""What tokens begin with where a word begins, written out by some servers."""
NEVER = -9000.0
"""Servers write −9999 or −∞ for what cannot be; it is then not listed."""
ROUNDING = 1e-6
"""Probability that the rounding of what is listed may hide."""
LEAST_SHARE = 1e-6
"""Probability of all labels together below which a model is about to write something else."""
UNLIKELY = "unreadable: the labels have less than a millionth of the probability; use verdict=text"
ABSENT = "unreadable: label %s is not among the first token's alternatives"
NEGLIGIBLE = 1e-3
"""Of three labels or more, the share of their probability that may go to unlisted ones."""


class Unlisted(ValueError):
    """What is listed does not tell the labels apart; the message is the reason."""


def label_log_probabilities(
    listed: Mapping[str, float], labels: Sequence[str]
) -> tuple[float, ...]:
    """Return each label's log-probability; one that is not listed counts as its upper bound.

    That is the smallest that is listed; beside a label that is itself the smallest, what all that
    is listed leaves. Of two labels the listed one is then the more probable, by the difference or
    more. Raises `Unlisted` where the bound decides nothing, and where the labels have next to none
    of the probability.

    >>> label_log_probabilities({"A": -0.1, "The": -2.5, "An": -5.0}, ["A", "B"])
    (-0.1, -5.0)
    """
    finite = {token: logp for token, logp in listed.items() if logp > NEVER}
    best: dict[str, float] = {}
    for token, logp in finite.items():
        label = token.lstrip(MARKS).strip()
        best[label] = max(logp, best.get(label, logp))
    missing = [label for label in labels if label not in best]
    there = [best[label] for label in labels if label in best]
    if not there:
        raise Unlisted(ABSENT % missing[0])
    mass = sum(map(exp, there))
    if mass < LEAST_SHARE:
        raise Unlisted(UNLIKELY)
    if not missing:
        return tuple(there)
    most = max(there)
    bound = min(finite.values())
    if bound == most:  # the label is the last that is listed
        bound = log(max(1 - sum(map(exp, finite.values())), ROUNDING))
    share = len(missing) * exp(bound) / mass
    if bound >= most or (len(labels) > 2 and share > NEGLIGIBLE):
        raise Unlisted(f"{ABSENT % missing[0]}, and may be as probable")
    return tuple(best.get(label, bound) for label in labels)
