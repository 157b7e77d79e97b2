"""Folders from which other trainers train a policy on a scorer's rewards."""

from palate.trainers.export.exporting import HELD_OUT, Exported, export
from palate.trainers.export.targets import TARGETS

__all__ = ["HELD_OUT", "TARGETS", "Exported", "export"]
