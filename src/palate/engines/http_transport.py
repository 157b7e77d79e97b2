"""The transport of requests: by aiohttp, many at once, behind a plain generator.

aiohttp takes a quarter of httpx2's time per request (docs/endpoints.md). Importing it takes a tenth
of a second, so that is left until a connection is opened.
"""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import Future
from importlib.metadata import version
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from palate.engines.http_limits import most_at_once
from palate.engines.http_requests import HttpSettings, check_url, read_key

if TYPE_CHECKING:
    import aiohttp

Job = TypeVar("Job")
R = TypeVar("R")
LARGE = 2**20
"""Longer bodies are handed over piece by piece."""


class HttpResponse(NamedTuple):
    """What came back, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """Looked up without regard to case."""
    body: bytes


class TransportFailure(Exception):
    """Nothing whole came back; `sent` is False where the server cannot have read the request."""

    def __init__(self, kind: str, *, sent: bool = True) -> None:
        super().__init__(kind)
        self.sent = sent


class HttpTransport:
    """HTTP/1.1 by aiohttp: connections kept open, no redirects, no cookies.

    It is opened in the event loop that uses it. Proxies come from the environment, certificates
    from the system.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._url = check_url(settings.base_url)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Open the pool; the key is read from the environment here and kept nowhere else."""
        import ssl
        from urllib.request import getproxies, proxy_bypass

        import aiohttp
        import truststore

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
        """Send one request, and call `heard` whenever bytes come; raises `TransportFailure`.

        Whatever ends the call early closes the connection, so that the server stops its work.
        """
        data = body if len(body) < LARGE else io.BytesIO(body)
        return await self._send("POST", path, data, heard)

    async def get(self, path: str) -> HttpResponse:
        """Ask for what lies at a path; raises `TransportFailure`."""
        return await self._send("GET", path, None, lambda: None)

    async def _send(
        self, method: str, path: str, body: bytes | io.BytesIO | None, heard: Callable[[], None]
    ) -> HttpResponse:
        import aiohttp
        from yarl import URL

        assert self._session is not None
        url = URL(self._settings.root + path, encoded=True)
        sending = self._session.request(method, url, data=body, allow_redirects=False)
        try:
            async with sending as response:
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


class LoopThread:
    """An event loop in a thread of its own, for callers that run in a loop already."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="palate-http", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()

    def wait(self, work: Coroutine[Any, Any, R]) -> R:
        """Return what a coroutine gives in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def side_by_side(
        self,
        work: Callable[[Job], Coroutine[Any, Any, R]],
        jobs: Iterable[Job],
        most: Callable[[], int],
    ) -> Generator[tuple[int, R]]:
        """Yield (position, result) as they come; jobs are drawn in the caller's thread.

        At most so many jobs as `most` then says are drawn and not yet yielded. Whatever ends the
        generator, an error or its closing, calls off what is under way before it returns.
        """
        done: SimpleQueue[Future[tuple[int, R]]] = SimpleQueue()
        source, inside = enumerate(jobs), 0

        async def placed(position: int, job: Job) -> tuple[int, R]:
            return position, await work(job)

        async def call_off() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        try:
            while True:
                while inside < most() and (drawn := next(source, None)) is not None:
                    future = asyncio.run_coroutine_threadsafe(placed(*drawn), self._loop)
                    future.add_done_callback(done.put)
                    inside += 1
                    if not done.empty():
                        break  # what has come goes first
                if not inside:
                    return
                yield done.get().result()
                inside -= 1
        finally:
            self.wait(call_off())
