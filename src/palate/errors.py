"""Every error palate raises on purpose, named by the boundary that was crossed.

PalateError
├── UsageError            exit 2: the caller can mend it
│   ├── SpecError         a kind:reference?option=value that cannot be read or resolved
│   ├── DataError         a row, file or column that breaks the row contract
│   ├── BenchmarkError    a benchmark, split or subset that is not there
│   ├── ModelError        a model folder, wheel or head that cannot be used as asked
│   │   └── LoadError     a model whose files cannot be loaded
│   ├── RunError          a run folder that is locked, foreign or not writable
│   └── ComparisonError   runs that cannot be compared
├── UnscoredError         exit 1: finished, and nothing was scored
└── OutsideError          exit 3: the outside world failed after retries
    ├── EndpointError     an HTTP endpoint
    ├── EngineError       workers that died, stood still or could not be reached
    ├── HubError          a model or data hub
    └── ResourceError     disk or memory

Each message says what was wrong, where, and what to do.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

ELSEWHERE = "serve the model with vLLM (docs/local_models.md, What does not fit)"
"""The way out where a model cannot be read in this process."""


class PalateError(Exception):
    """Base of all errors palate raises on purpose."""

    exit_code: ClassVar[int] = 2


class UsageError(PalateError):
    """The caller's mistake; the message says how to mend it."""


class SpecError(UsageError):
    """A spec that cannot be read, or names something unknown."""


class DataError(UsageError):
    """A row, file or column that breaks the row contract."""

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        self.problem, self.file, self.line, self.field = problem, file, line, field
        where = ":".join(str(part) for part in (file, line) if part is not None)
        named = f"`{field}`: " if field else ""
        message = f"{where}: {named}{problem}" if where else f"{named}{problem}"
        super().__init__(" ".join(message.splitlines()))

    def at(
        self, file: Path | str | None = None, line: int | None = None, field: str | None = None
    ) -> DataError:
        """Return the same problem at this place; the field stays, unless another is given."""
        place = None if file is None else str(file)
        return DataError(self.problem, file=place, line=line, field=field or self.field)


class BenchmarkError(UsageError):
    """A benchmark, split or subset that is not there."""


class ModelError(UsageError):
    """A model folder, wheel or head that cannot be used as asked."""


class LoadError(ModelError):
    """A model whose files cannot be loaded."""


class RunError(UsageError):
    """A run folder that is locked, foreign or not writable."""


class ComparisonError(UsageError):
    """Runs that cannot be compared."""


class UnscoredError(PalateError):
    """Work that is finished, in which nothing was scored."""

    exit_code: ClassVar[int] = 1


class OutsideError(PalateError):
    """The outside world failed after retries."""

    exit_code: ClassVar[int] = 3


class EndpointError(OutsideError):
    """An HTTP endpoint that did not answer as it must."""


class EngineError(OutsideError):
    """Workers that died, stood still or could not be reached."""


class HubError(OutsideError):
    """A model or data hub that could not be reached or lacks what was asked."""


class ResourceError(OutsideError):
    """Disk or memory ran out."""


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or its type where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Raise `UsageError`, with what to install, where an import within fails."""
    try:
        yield
    except ImportError as error:
        raise UsageError(f"{what} pip install 'palate[{extra}]'") from error


@contextmanager
def writing(place: Path | str, error: type[PalateError] = ResourceError) -> Iterator[None]:
    """Raise this error, with the place and the reason, for what cannot be written meanwhile.

    Of a full disk it is always `ResourceError`.
    """
    try:
        yield
    except OSError as problem:
        full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
        kind = ResourceError if full else error
        raise kind(f"{place}: cannot be written ({problem.strerror})") from problem
