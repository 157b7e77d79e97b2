"""The fields of a posted form, and what is wrong with them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Annotated, NamedTuple

from fastapi import Depends, HTTPException, Request
from starlette.formparsers import FormParser, MultiPartException

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

    async def limited() -> AsyncGenerator[bytes]:
        taken = 0
        async for part in request.stream():
            taken += len(part)
            if taken > MOST_BYTES:
                raise HTTPException(413)
            yield part

    try:
        form = await FormParser(request.headers, limited(), max_fields=MOST_FIELDS).parse()
    except MultiPartException as error:
        raise HTTPException(422) from error
    values = {name: str(value) for name, value in form.multi_items()}
    return PostedFields(values, len(values) < len(form.multi_items()))


Posted = Annotated[PostedFields, Depends(_read)]
