"""Names as numbers, for columns that are held as compact arrays."""

from __future__ import annotations


class NameCodes:
    """Few different texts, numbered in order of appearance."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, name: str) -> int:
        """Return the number of a name, a new one where it has none yet."""
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code
