"""What tests of several turns share: one conversation, and rows that ask in the midst of it."""

from __future__ import annotations

from typing import Any

TURNS = [
    {"role": "system", "content": "Be brief, please."},
    {"role": "user", "content": "I want to warm up after swimming in the lake."},
    {"role": "assistant", "content": "With tea or with soup?"},
]
"""Before the question."""
QUESTION = "The first. Which kind?"
IN_ORDER = ("Be brief, please.", "I want to warm up", "With tea or with soup?", QUESTION)
"""What a prompt must hold, one after the other."""


def row(name: str, user: str, chosen: str = "Assam.", **columns: Any) -> dict[str, Any]:
    """Return a row of the contract that asks after these turns."""
    rejected = "Mint." if chosen == "Assam." else "Assam."
    return {
        "id": name, "user_id": user, "question": QUESTION, "turns": TURNS, "chosen": chosen,
        "rejected": rejected, **columns,
    }  # fmt: skip


def two_users() -> list[dict[str, Any]]:
    """Return a mirrored couple; each user has written two posts."""
    posts = {"ann": ("I drink it strong.", "The boat leaks."), "bob": ("Herbs grow here.", "Rain.")}
    return [
        row(name, name, chosen, profile=[{"id": f"{name}-{k}", "text": text}
                                         for k, text in enumerate(posts[name])])
        for name, chosen in (("ann", "Assam."), ("bob", "Mint."))
    ]  # fmt: skip


def in_order(text: str, *more: str) -> bool:
    """Tell whether a prompt holds the conversation in its order, and then these."""
    places = [text.find(part) for part in (*IN_ORDER, *more)]
    return -1 not in places and places == sorted(places)
