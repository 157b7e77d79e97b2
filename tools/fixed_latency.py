"""A server on the loopback that answers everything after a fixed time, as cheaply as Python can."""

from __future__ import annotations

import asyncio
import sys
from functools import partial

CHAT = (
    b'{"choices":[{"index":0,"message":{"role":"assistant","content":"Rating: 7"},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":4}}'
)
CLASSIFY = (
    b'{"id":"classify-1","object":"list","created":1,"model":"m","data":'
    b'[{"index":0,"label":"LABEL_0","probs":[1.25],"num_classes":1}],'
    b'"usage":{"prompt_tokens":0,"total_tokens":0,"completion_tokens":0}}'
)


def _response(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


class FixedLatency(asyncio.Protocol):
    """Reads requests with a Content-Length and answers each after `latency` seconds."""

    def __init__(self, latency: float) -> None:
        self.latency = latency

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._have = transport, b""
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole."""
        self._have += data
        while (end := self._have.find(b"\r\n\r\n")) >= 0:
            head = self._have[:end].lower()
            at = head.find(b"content-length:")
            whole = end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])
            if len(self._have) < whole:
                return
            self._have = self._have[whole:]
            answer = CLASSIFIED if b"/classify" in head[:64] else CHATTED
            self._loop.call_later(self.latency, self._transport.write, answer)


CHATTED, CLASSIFIED = _response(CHAT), _response(CLASSIFY)


async def serve(latency: float) -> None:
    """Serve on a free port, until killed; the address is printed."""
    loop, protocol = asyncio.get_running_loop(), partial(FixedLatency, latency)
    server = await loop.create_server(protocol, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()
