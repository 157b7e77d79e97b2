"""The transport by aiohttp: a quarter of httpx2's time per request (docs/endpoints.md)."""

from __future__ import annotations

import io
import ssl
from collections.abc import Callable
from importlib.metadata import version
from urllib.request import getproxies, proxy_bypass

import aiohttp
import truststore
from yarl import URL

from palate.engines.http.settings import HttpSettings, check_url, read_key
from palate.engines.http.speed_search import most_at_once
from palate.engines.http.transport import HttpResponse, TransportFailure

LARGE = 2**20
"""Longer bodies are handed over piece by piece."""


class HttpTransport:
    """HTTP/1.1 by aiohttp: connections kept open, no redirects, no cookies.

    Proxies come from the environment, certificates from the system.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._url = check_url(settings.base_url)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Open the pool; the key is read from the environment here and kept nowhere else."""
        settings, url = self._settings, self._url
        secure: ssl.SSLContext | bool = True
        if url.scheme == "https":
            secure = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        proxies = {} if proxy_bypass(url.hostname or "") else getproxies()
        key, most = read_key(settings.key_env), settings.concurrency or most_at_once()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=most, ssl=secure),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "Accept": "application/json",
                "Content-Type": "application/json",
                "User-Agent": f"palate/{version('palate')}",
                **({"Authorization": f"Bearer {key}"} if key else {}),
            },
            timeout=aiohttp.ClientTimeout(total=None),  # the limit on silence is set outside
            proxy=proxies.get(url.scheme) or proxies.get("all"),
        )

    async def post(self, path: str, body: bytes, heard: Callable[[], None]) -> HttpResponse:
        """Send one request, and call `heard` whenever bytes come; raises `TransportFailure`."""
        data = body if len(body) < LARGE else io.BytesIO(body)
        return await self._send("POST", path, data, heard)

    async def get(self, path: str) -> HttpResponse:
        """Ask for what lies at a path; raises `TransportFailure`."""
        return await self._send("GET", path, None, lambda: None)

    async def _send(
        self, method: str, path: str, body: bytes | io.BytesIO | None, heard: Callable[[], None]
    ) -> HttpResponse:
        assert self._session is not None
        url = URL(self._settings.root + path, encoded=True)
        asked = self._session.request(method, url, data=body, allow_redirects=False)
        try:
            async with asked as response:
                pieces: list[bytes] = []
                heard()
                async for piece in response.content.iter_any():
                    heard()
                    pieces.append(piece)
                return HttpResponse(response.status, response.headers, b"".join(pieces))
        except aiohttp.ClientConnectorError as error:
            raise TransportFailure("ConnectError", sent=False) from error
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientResponseError) as error:
            raise TransportFailure("RemoteProtocolError") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransportFailure("ReadError") from error

    async def close(self) -> None:
        """Drop all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
