"""The fields of a posted form, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, NamedTuple
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Request

MOST_BYTES, MOST_FIELDS = 64 * 1024, 64
URLENCODED = "application/x-www-form-urlencoded"


class PostedFields(NamedTuple):
    """The fields of a form, and whether a name came twice."""

    values: Mapping[str, str]
    doubled: bool = False

    def wrong(self, allowed: Mapping[str, Collection[str | None]], *free: str) -> list[str]:
        """Return the fields without an allowed value, and `main` for a foreign or doubled one.

        >>> PostedFields({"milk": "y"}).wrong({"sugar": ("y", "n")})
        ['sugar', 'main']
        """
        wrong = [name for name, options in allowed.items() if self.values.get(name) not in options]
        foreign = self.doubled or not self.values.keys() <= {*allowed, *free}
        return [*wrong, "main"] if foreign else wrong


async def _read(request: Request) -> PostedFields:
    if request.headers.get("content-type", URLENCODED).partition(";")[0].strip() != URLENCODED:
        raise HTTPException(415)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413)
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise HTTPException(422) from error
    return PostedFields(dict(pairs), len(dict(pairs)) < len(pairs))


Posted = Annotated[PostedFields, Depends(_read)]
