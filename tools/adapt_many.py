"""How long personal reward models take to adapt many users at once, and in how much memory.

    python tools/adapt_many.py [--users 10000] [--choices 20] [--width 384] [METHOD ...]

Users' own heads lie around a common one in six directions; each has so many choices between
responses of 40,000. A method learns from 500 of the users, then adapts all of them in one job.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from typing import Any

import numpy as np

from palate.learning import Choices, method_of

GIVEN: dict[str, dict[str, Any]] = {
    "lore": {"ridge": 1.0, "strength": 30.0, "concentration": 1.0, "starts": 1},
    "pref": {"ridge": 1.0, "strength": 30.0, "starts": 1},
    "user-heads": {"ridge": 1.0, "variance": 0.1},
}
"""What would be chosen on held-out questions; the choice is no part of adapting."""
DIRECTIONS, RESPONSES, LEARNT_FROM = 6, 40_000, 500


def world(users: int, choices: int, width: int) -> Choices:
    """Return choices of users whose heads differ in a few directions."""
    stream = np.random.default_rng(0)
    features = stream.normal(size=(RESPONSES, width)).astype(np.float32) / np.sqrt(width)
    head = stream.normal(size=width)
    basis = stream.normal(size=(DIRECTIONS, width))
    heads = head + stream.normal(size=(users, DIRECTIONS)) @ basis
    user = np.repeat(np.arange(users), choices)
    sides = stream.integers(RESPONSES, size=(len(user), 2))
    apart = features[sides[:, 0]] - features[sides[:, 1]]
    odds = 3 * np.einsum("nd,nd->n", apart, heads[user].astype(np.float32))
    won = stream.random(len(user)) < 1 / (1 + np.exp(-odds))
    chosen = np.where(won, sides[:, 0], sides[:, 1])
    return Choices(features, user, chosen, np.where(won, sides[:, 1], sides[:, 0]), users=users)


def main() -> None:
    """Print one line per method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("methods", nargs="*", default=list(GIVEN))
    for name, value in (("users", 10_000), ("choices", 20), ("width", 384)):
        parser.add_argument(f"--{name}", type=int, default=value)
    asked = parser.parse_args()
    choices = world(asked.users, asked.choices, asked.width)
    for name in asked.methods:
        model = method_of(name).fit(choices.of_users(np.arange(LEARNT_FROM)), **GIVEN[name])
        began = time.monotonic()
        states = model.adapt(choices)
        took = time.monotonic() - began
        size = sum(array.nbytes for array in states.values()) / asked.users
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        sys.stdout.write(
            f"{name}: {asked.users:,} users × {asked.choices} choices, d = {asked.width}: "
            f"{took:.1f} s, {size:,.0f} bytes a user, peak of the process {peak:.1f} GiB\n"
        )


if __name__ == "__main__":
    main()
