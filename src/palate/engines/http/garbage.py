"""Fewer searches for garbage while many small requests are under way."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 20_000
"""New objects between two searches; Python's own 700 is reached several times a request."""
_lock = threading.Lock()
_inside = 0
_before = (700, 10, 10)
_frozen = False


@contextmanager
def fewer_searches() -> Iterator[None]:
    """Leave what is there out of the searches, and search less often; all is as before at the end.

    Slates by the ten thousand are walked through again and again otherwise, which holds up every
    request for a tenth of a second at a time.
    """
    global _inside, _before, _frozen  # noqa: PLW0603 - the collector is one for the process
    with _lock:
        _inside += 1
        if _inside == 1:
            _before, _frozen = gc.get_threshold(), gc.get_freeze_count() == 0
            if _frozen:  # else somebody else has frozen, and will unfreeze
                gc.freeze()
            if _before[0]:  # 0 is off
                gc.set_threshold(max(YOUNG, _before[0]), *_before[1:])
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                gc.set_threshold(*_before)
                if _frozen:
                    gc.unfreeze()
