"""The one session of a program that names none; public functions take it, and nothing else does."""

from __future__ import annotations

import copyreg
import threading

from palate.session.session import Session

_default: Session | None = None
_lock = threading.Lock()


def default_session() -> Session:
    """Return the session of whoever names none, made when it is first asked for."""
    with _lock:
        return use(_default or Session())


def use(session: Session) -> Session:
    """Make a session the default one, and return it."""
    global _default  # noqa: PLW0603 - the one thing that palate keeps by itself
    _default = session
    return session


def close() -> None:
    """Let go of what the default session holds, such as loaded models; the next one starts anew.

    >>> before = default_session()
    >>> close()
    >>> default_session() is before
    False
    """
    global _default  # noqa: PLW0603 - the one thing that palate keeps by itself
    if _default is not None:
        _default.close()
    _default = None


# A session does not travel: where an object that holds one is unpickled, it holds the default one.
copyreg.pickle(Session, lambda session: (default_session, ()))
