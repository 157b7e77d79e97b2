"""The limit of a body: a longer one is answered 413, unread where its length is declared."""

from __future__ import annotations

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """Middleware: refuses bodies over so many bytes, as every refusal is worded."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most = app, most
        self.problem = f"the body is over {most / 2**20:g} MiB; send less in one request"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is short enough."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > self.most:
            refusal = JSONResponse({"detail": self.problem}, status_code=413)
            await refusal(scope, receive, send)
            return
        taken = 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self.most:
                raise HTTPException(413, self.problem)
            return message

        await self.app(scope, limited, send)
