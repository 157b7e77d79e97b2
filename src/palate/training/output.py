"""A model folder that appears whole or not at all."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from palate.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give an unfinished folder beside the target; it becomes the target when the block ends well.

    Raises:
        UsageError: if the target is there and not empty, or cannot be written.
        ResourceError: if it cannot be put in place at the end.
    """
    target = target.expanduser().absolute()
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(f"output {target}: exists already; name a new or an empty folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-")
    except OSError as error:
        raise UsageError(f"output {target}: cannot be written ({error.strerror})") from error
    with unfinished as scratch:
        made = Path(scratch) / "model"
        made.mkdir()
        yield made
        try:
            made.replace(target)
        except OSError as error:
            raise ResourceError(f"output {target}: cannot be written ({error})") from error
