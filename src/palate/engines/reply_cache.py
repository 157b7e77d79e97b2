"""Replies of endpoints on disk, so that none is paid twice; and files of batches they come by.

OpenAI and `vllm run-batch` read and write such files: requests are written, replies read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from palate.data import read_jsonl
from palate.engines.http_refusals import one_line, read_refusal
from palate.engines.http_replies import why_not_kept
from palate.engines.http_requests import body_of
from palate.errors import DataError, UsageError, writing
from palate.files import whole_file
from palate.stores import Documents

BATCHED = ("chat/completions", "embeddings")
MOST_INPUTS, MOST_BYTES = 50_000, 190_000_000
"""OpenAI takes 50,000 requests, or texts to embed, and 200 MB a file."""
KEY = "[0-9a-f]{64}"
OTHERS = {
    "result": ", but of Anthropic's",
    **dict.fromkeys(("modelOutput", "recordId"), ", but of Bedrock's"),
    **dict.fromkeys(("request", "key"), ", but of Gemini's"),
}
"""By a field of theirs, whose lines are not read."""
START = re.compile(rf'({{"custom_id":"{KEY}","method":"POST","url":"/v1/.*)?\Z'.encode(), re.DOTALL)


class ReplyCache(Documents):
    """Replies by what was asked; while they are asked for afresh none is read, and each is kept.

    >>> import tempfile
    >>> replies = ReplyCache(Path(tempfile.mkdtemp()))
    >>> replies.put("ab12", b"a reply")
    >>> with replies.asked_afresh():
    ...     replies.get("ab12")
    >>> replies.get("ab12")
    b'a reply'
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.afresh = False
        self.requests: RequestFile | None = None  # written there where it is one, and not sent

    def get(self, key: str) -> bytes | None:
        """Return a reply; None where there is none, or it is to be asked for afresh."""
        return None if self.afresh else super().get(key)

    @contextmanager
    def asked_afresh(self) -> Iterator[None]:
        """Leave what is kept unread for a while."""
        self.afresh = True
        try:
            yield
        finally:
            self.afresh = False


@dataclass
class FileOfRequests:
    """A file of requests: to one model at one address, as providers want it."""

    asks: str
    path: Path
    stream: IO[bytes]
    requests: int = 0
    inputs: int = 0


class RequestFile(AbstractContextManager["RequestFile"]):
    """Writes each request once, into files that take their places when the context ends well.

    `judge.jsonl` is followed by `judge-2.jsonl` and so on where another model is asked, and where a
    file is full; those of an earlier call go. Raises `UsageError` for a file that is not palate's.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.batches: list[FileOfRequests] = []
        self._keys: set[str] = set()
        self._stack = ExitStack()
        self._place(1)

    def __exit__(self, *error: Any) -> None:
        with writing(self.path, UsageError):
            self._stack.__exit__(*error)
            k = len(self.batches) + 1
            while error[0] is None and (path := self._numbered(k)).is_file() and _is_ours(path):
                path.unlink()
                k += 1

    def add(self, key: str, root: str, path: str, body: bytes) -> None:
        """Write a request that is not written yet; raises `UsageError` for what no batch takes."""
        if path not in BATCHED:
            raise UsageError(f"{root}{path}: no batch takes that; leave out --requests")
        if key in self._keys:
            return
        self._keys.add(key)
        content = json.loads(body)
        request = {"custom_id": key, "method": "POST", "url": f"/v1/{path}", "body": content}
        line = json.dumps(request, separators=(",", ":")).encode() + b"\n"  # without U+2028
        inputs = len(content.get("input", "1"))
        with writing(self.path, UsageError):
            batch = self._with_room(f"{content['model']} at {root}{path}", inputs, len(line))
            batch.stream.write(line)
        batch.requests, batch.inputs = batch.requests + 1, batch.inputs + inputs

    def _with_room(self, asks: str, inputs: int, size: int) -> FileOfRequests:
        last = next((batch for batch in reversed(self.batches) if batch.asks == asks), None)
        if last and last.inputs + inputs <= MOST_INPUTS and last.stream.tell() + size <= MOST_BYTES:
            return last
        path = self._place(len(self.batches) + 1)
        self.batches.append(FileOfRequests(asks, path, self._stack.enter_context(whole_file(path))))
        return self.batches[-1]

    def _place(self, k: int) -> Path:
        path = self._numbered(k)
        if path.exists() and not _is_ours(path):
            raise UsageError(f"--requests {path}: exists and is no request file of palate's")
        return path

    def _numbered(self, k: int) -> Path:
        return self.path if k == 1 else self.path.with_stem(f"{self.path.stem}-{k}")


def _is_ours(path: Path) -> bool:
    with writing(path, UsageError), path.open("rb") as stream:
        return START.match(stream.read(200)) is not None


def keep_replies(files: Sequence[Path], cache: Documents) -> tuple[int, Counter[str]]:
    """Keep the whole replies of status 200; return how many, and why the others are none.

    A request that failed in one file may have come in another. Raises `DataError`, before anything
    is kept, for a line that is no reply, and for two different replies to one request.
    """
    came: dict[str, bytes] = {}
    failed: dict[str, str] = {}
    for place, key, reply in _replies(files):
        if isinstance(reply, str):
            failed[key] = reply
        elif came.setdefault(key, content := sha256(reply).digest()) != content:
            raise DataError("another reply to this request came before; keep one", file=place)
    for _, key, reply in _replies(files):
        if isinstance(reply, bytes):
            cache.put(key, reply)
    return len(came), Counter(reason for key, reason in failed.items() if key not in came)


def _replies(files: Sequence[Path]) -> Iterator[tuple[str, str, bytes | str]]:
    # (place, key, reply or the reason why there is none)
    for file in files:
        if file.exists() and not file.is_file():  # a pipe is empty when it is read again
            raise DataError("a folder or a pipe; name a file", file=str(file))
        for line, value in read_jsonl(file):
            if isinstance(value, DataError):
                raise value
            fields = value if isinstance(value, dict) else {}
            key, response, error = map(fields.get, ("custom_id", "response", "error"))
            wrong = partial(DataError, file=str(file), line=line)
            answers = response is None and bool({"response", "error"} & fields.keys())
            if isinstance(response, dict):
                answers = type(response.get("status_code")) is int
            if fields and not (answers or "method" in fields):
                whose = next((whose for name, whose in OTHERS.items() if name in fields), "")
                problem = f"no line of OpenAI's batches{whose}: it has no response.status_code"
                raise wrong(f"{problem}, a number")
            if not (isinstance(key, str) and re.fullmatch(KEY, key)):
                raise wrong("no key of a request", field="custom_id")
            if "method" in fields:
                raise wrong("a request; name what came back")
            yield f"{file}:{line}", key, _reply(response, error)


def _reply(response: Any, error: Any) -> bytes | str:
    status, body = map((response or {}).get, ("status_code", "body"))
    if response and status != 200:
        return read_refusal(status, body_of(body or error)).reason
    if error or not response:
        code = error.get("code") if isinstance(error, dict) else error
        return one_line(str(code or ("an error" if error else "no response")), 60)
    return why_not_kept(body) or body_of(body)
