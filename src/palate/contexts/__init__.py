"""Which part of the user a scorer is shown, one file each."""

from palate.contexts.build import GROUP, build_context

__all__ = ["GROUP", "build_context"]
