"""The base of all records: frozen, and of known fields."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from palate.errors import first_line


class Record(BaseModel):
    """A frozen record; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def problem_of(error: Exception) -> str:
    """Return in one line what stood in the way of reading a record: the field, if there is one."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
    return first_line(error)
