"""Forms: fields as they were posted, and groups of radio buttons that they answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, HTTPException, Request
from starlette.formparsers import FormParser, MultiPartException

MOST_BYTES = 64 * 1024
MOST_FIELDS = 64
URLENCODED = "application/x-www-form-urlencoded"


class RadioGroup(NamedTuple):
    """A question with fixed options, one of which is chosen."""

    name: str
    legend: str
    options: Mapping[str, str]
    """What is posted, and its label."""
    missing: str
    """Words for nothing chosen."""
    hint: str = ""
    scale: bool = False


class PostedFields(NamedTuple):
    """The fields of a form."""

    values: Mapping[str, str]
    doubled: bool
    """Whether a name came twice."""

    def problems(self, groups: Iterable[RadioGroup], unknown: str, *more: str) -> dict[str, str]:
        """Return the words for every group without a valid choice, and for foreign fields.

        >>> sex = RadioGroup("sugar", "Sugar?", {"y": "Yes", "n": "No"}, "Choose")
        >>> PostedFields({"sugar": "y"}, False).problems([sex], "?")
        {}
        >>> PostedFields({"milk": "y"}, False).problems([sex], "?")
        {'sugar': 'Choose', 'main': '?'}
        """
        groups = list(groups)
        wrong = {it.name: it.missing for it in groups if self.values.get(it.name) not in it.options}
        known = {group.name for group in groups} | {*more}
        if self.doubled or not self.values.keys() <= known:
            wrong["main"] = unknown
        return wrong


async def read_fields(request: Request) -> PostedFields:
    """Return the fields of a posted form; raises `HTTPException` for what is too long or none."""
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
    pairs: list[tuple[str, Any]] = form.multi_items()
    return PostedFields(dict(pairs), len(dict(pairs)) < len(pairs))


Posted = Annotated[PostedFields, Depends(read_fields)]
