"""Whom a context shows, by its spec: nobody, the user, or a stranger in the user's place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from palate.contexts.from_spec import build_context
from palate.errors import SpecError, UsageError
from palate.records import Settings
from palate.session import Session
from palate.specs import Spec

NOTHING = "none"
"""The context that shows nobody."""


def shows(context: str) -> Literal["nobody", "user", "stranger"]:
    """Return whom a context shows; of an object that goes by its own name, the user.

    >>> shows("none"), shows("profile:5"), shows("profile:5?draws=3&of=stranger")
    ('nobody', 'user', 'stranger')
    """
    spec = _read(context)
    if spec is None:
        return "user"
    if spec.kind == NOTHING:
        return "nobody"
    return "stranger" if spec.options.get("of") == "stranger" else "user"


def of_stranger(context: str) -> str:
    """Return the context that shows as much of a stranger.

    >>> of_stranger("profile:5")
    'profile:5?of=stranger'
    """
    return str(Spec.parse(context).having(of="stranger"))


def strangers_of(context: str, among: Iterable[str]) -> list[str]:
    """Return those of these contexts that show as much of a stranger, whatever their draws.

    >>> strangers_of("profile:5", ["none", "profile:5", "profile:5?draws=3&of=stranger"])
    ['profile:5?draws=3&of=stranger']
    """
    spec = _read(context)
    if spec is None or shows(context) != "user":
        return []
    wanted = spec.having(of="stranger", draws=None)
    return [other for other in among if _without_draws(other) == wanted]


def with_controls(contexts: Sequence[str], session: Session, settings: Settings) -> list[str]:
    """Return contexts with the controls `none` and, of each that shows a user's text, a stranger's.

    >>> with_controls(["profile:3"], Session(), Settings())
    ['none', 'profile:3', 'profile:3?of=stranger']
    """
    listed = [NOTHING]
    for text in contexts:
        built = build_context(text, session, settings)
        listed.append(built.spec)
        if built.empty or built.oracle or shows(built.spec) == "stranger":
            continue
        try:
            listed.append(build_context(of_stranger(built.spec), session, settings).spec)
        except SpecError:  # a context of an installed package may know no strangers
            continue
    return list(dict.fromkeys(listed))


def refuse_other_draws(contexts: Iterable[str]) -> None:
    """Raise `UsageError` for two contexts of strangers that differ in draws alone."""
    first: dict[str, str] = {}
    for context in contexts:
        if shows(context) != "stranger":
            continue
        other = first.setdefault(str(_without_draws(context)), context)
        if other != context:
            raise UsageError(
                f"{other} and {context} differ in draws alone, and a gain has one stranger's "
                "context; ask for one of them"
            )


def usual_name(context: str) -> str:
    """Return a context as it is usually asked for.

    >>> usual_name("profile:5?of=stranger")
    'stranger:5'
    """
    spec = _read(context)
    if spec is None or spec.kind != "profile" or shows(context) != "stranger":
        return context
    return str(spec.model_copy(update={"kind": "stranger"}).having(of=None))


def _read(context: str) -> Spec | None:
    try:
        return Spec.parse(context)
    except SpecError:
        return None


def _without_draws(context: str) -> Spec | None:
    spec = _read(context)
    return None if spec is None else spec.having(draws=None)
