"""What the JSON documents of `evaluate` and `compare` hold."""

from __future__ import annotations

from palate.records import Record
from palate.runs import Gain, GroupView, RatingFigures, Summary, Test


class Evaluation(Record):
    """Of `palate evaluate`."""

    runs: tuple[Summary, ...]
    gains: tuple[Gain, ...]
    groups: tuple[GroupView, ...] = ()
    """Only with `--by`."""
    ratings: tuple[RatingFigures, ...] = ()
    """Only with `--target rating`."""


class Tests(Record):
    """Of `palate compare`."""

    __test__ = False  # no test class of pytest's

    runs: tuple[Summary, ...]
    tests: tuple[Test, ...]
