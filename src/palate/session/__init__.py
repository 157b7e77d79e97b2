"""The session of a program: models, embedders, costs, the store, and where work is computed."""

from palate.session.default import close, default_session, use
from palate.session.session import Session

__all__ = ["Session", "close", "default_session", "use"]
