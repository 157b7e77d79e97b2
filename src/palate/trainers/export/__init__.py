"""Folders from which other trainers train a policy on a scorer's rewards."""

from palate.trainers.export.exporting import HELD_OUT, TARGETS, Exported, export

__all__ = ["HELD_OUT", "TARGETS", "Exported", "export"]
