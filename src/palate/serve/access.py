"""Access by a bearer token, compared in constant time before anything of a body is read."""

from __future__ import annotations

import os
import secrets

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from palate.errors import UsageError

OPEN = frozenset({"/healthz", "/readyz"})
"""What needs no token: probes have none."""


def read_key(name: str | None) -> str | None:
    """Return the token in an environment variable; None where no variable is named.

    Raises `UsageError` for a variable that is missing, empty, or not ASCII without spaces.
    """
    if name is None:
        return None
    key = os.environ.get(name, "")
    if not key:
        raise UsageError(f"--key-env {name}: the variable is not set, or empty")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"--key-env {name}: a bearer token is ASCII without spaces")
    return key


class BearerToken:
    """Middleware: what carries no token, or a wrong one, is answered 401."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self.app, self._expected = app, f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what carries the token."""
        if scope["type"] != "http" or scope["path"] in OPEN or self._allows(scope):
            await self.app(scope, receive, send)
            return
        refusal = JSONResponse(
            {"detail": "expected `Authorization: Bearer TOKEN` with this server's token"},
            status_code=401,
            headers={"WWW-Authenticate": "Bearer"},
        )
        await refusal(scope, receive, send)

    def _allows(self, scope: Scope) -> bool:
        header = Headers(scope=scope).get("authorization", "")
        scheme, _, token = header.partition(" ")
        # The scheme is case-insensitive, the token is not.
        sent = f"{scheme.title()} {token}".encode("latin-1", "replace")
        return secrets.compare_digest(sent, self._expected)
