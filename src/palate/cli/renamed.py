"""Options that had another name: who gives the old one is told the new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from palate.errors import UsageError

RENAMED: Mapping[str, Mapping[str, str]] = {
    "best-of-n": {"--ks": "-k, once for each size: -k 1 -k 8"},
    "policy-accuracy": {
        "--weights": "--weight, once for each: --weight 0.5 --weight inf",
        "-k": "--candidates",
        "--base": "--compared-with",
    },
    "ppo": {
        "--answers": "--rollout-batch",
        "--answers-at-once": "--micro-batch",
        "--updates": "--iterations",
        "--no-end": "--missing-eos",
        "--scale": "--raw, for the scorer's own numbers",
    },
    "export": {
        trainer: f"--to {trainer}: palate export --to {trainer} …"
        for trainer in ("trl", "verl", "openrlhf")
    },
    "train p-dpo": {"--spread": "--prior-std"},
    "selfcheck": {"decoding": "python -m pytest tests/guidance, in a clone"},
}
"""By command, the old word and what is written now."""


def refuse_old(command: str, words: Sequence[str]) -> None:
    """Raise `UsageError` for an old name among the words of a command line.

    >>> refuse_old("best-of-n", ["-b", "tasting", "--ks=1,8"])
    Traceback (most recent call last):
    palate.errors.UsageError: --ks is now -k, once for each size: -k 1 -k 8
    """
    old = RENAMED.get(command, {})
    for word in words:
        if word == "--":
            return
        name = word.partition("=")[0]
        if name in old and (name.startswith("-") or word == words[0]):
            raise UsageError(f"{name} is now {old[name]}")
