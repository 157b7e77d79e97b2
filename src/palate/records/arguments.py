"""Arguments of public functions: held to their annotations, before anything is done."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

from palate.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
K = TypeVar("K")
KINDS: Mapping[Any, Any] = {int: Integral, float: Real, Path: os.PathLike}
"""What counts as each."""


class ObjectName(str):
    """The name by which an object is called where others are named by their specs."""

    __slots__ = ("value",)
    value: Any

    @classmethod
    def of(cls, value: object, name: str) -> ObjectName:
        """Return the name of an object, with the object."""
        named = cls(name)
        named.value = value
        return named


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return a public function that refuses arguments which its annotations do not allow.

    What it raises is a `UsageError` of one line: the argument, what it is, and what is expected.
    Options that several functions share are declared once, in a `TypedDict`: of `**options:
    Unpack[Shared]` each is an argument like others. Its default is None, or what `Annotated` says;
    the function is called with all of them.

    >>> @checked
    ... def double(n: int) -> int:
    ...     return 2 * n
    >>> double("2")
    Traceback (most recent call last):
    palate.errors.UsageError: double: n='2' is of str; expected int
    """
    taken, options = signature(function), _shared_options(function)
    if options:
        *own, _ = taken.parameters.values()
        taken = taken.replace(parameters=[*own, *options])
    defaults = {option.name: option.default for option in options}
    hints = cache(
        lambda: get_type_hints(function) | {option.name: option.annotation for option in options}
    )

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            arguments = taken.bind(*args, **kwargs).arguments
        except TypeError:  # a name that it has not, or one that is missing
            unknown = [name for name in kwargs if name not in taken.parameters]
            if options and unknown:
                what = f"got an unexpected keyword argument {unknown[0]!r}"
                raise TypeError(f"{function.__name__}() {what}") from None
            arguments = {}  # Python says which
        for name, value in arguments.items():
            hint = hints()[name]
            if not _fits(value, hint):
                what = "class" if isinstance(value, type) else type(value).__name__
                allowed = getattr(hint, "__name__", str(hint)) if not get_args(hint) else str(hint)
                expected = re.sub(r"\w+\.", "", allowed.replace("NoneType", "None"))
                raise UsageError(
                    f"{function.__name__}: {name}={shown(value)} is of {what}; expected {expected}"
                )
        every: Any = {**defaults, **kwargs}
        return function(*args, **every)

    if options:
        call.__signature__ = taken  # type: ignore[attr-defined]
        call.__annotations__ = {name: p.annotation for name, p in taken.parameters.items()}
        call.__annotations__["return"] = taken.return_annotation
    return call


def _shared_options(function: Callable[..., object]) -> list[Parameter]:
    """Return the options of `**options: Unpack[…]` as parameters of their own."""
    parameters = signature(function).parameters.values()
    rest = next((p.name for p in parameters if p.kind is Parameter.VAR_KEYWORD), None)
    table = None if rest is None else get_type_hints(function)[rest]
    if get_origin(table) is not Unpack:
        return []
    options = []
    for name, hint in get_type_hints(get_args(table)[0], include_extras=True).items():
        plain, *default = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        values = {"default": default[0] if default else None, "annotation": plain}
        options.append(Parameter(name, Parameter.KEYWORD_ONLY, **values))
    return options


def listed(arguments: Any) -> list[Any]:
    """Return several arguments as a list, and one as a list of it: a text, a path, an object.

    >>> listed("longest"), listed(("random", "longest"))
    (['longest'], ['random', 'longest'])
    """
    return [arguments] if alone(arguments) else list(arguments)


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by their key, keys in the order of their first items.

    >>> grouped(["longest", "random", "shortest"], len)
    {7: ['longest'], 6: ['random'], 8: ['shortest']}
    """
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def alone(argument: Any) -> bool:
    """Tell one argument from several."""
    return isinstance(argument, str | os.PathLike) or not isinstance(argument, Iterable)


def shown(value: object) -> str:
    """Return how an argument is named in a message: on one line, and short."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if hint in (Any, NoneType) or origin is Literal:
        allowed = parts or (None,)
        return hint is Any or any(type(value) is type(word) and value == word for word in allowed)
    kind = KINDS.get(hint, origin or hint)
    # Where a class is given an object was meant; a text is no list of letters, nor True a number.
    other = isinstance(value, type) or (isinstance(value, str | bytes) and kind is not str)
    if other or (isinstance(value, bool) and hint is not bool) or not isinstance(value, kind):
        return False
    # What can be read but once is read where it is used.
    many = parts and isinstance(value, Collection) and not issubclass(kind, Mapping)
    return kind is Callable or not many or all(_fits(item, parts[0]) for item in value)
