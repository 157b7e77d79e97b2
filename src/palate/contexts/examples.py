"""The user's past choices, k of them, or of a stranger's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from palate.contexts.options import DRAWS, one_spelling, read_count, read_owner
from palate.data.leaks import forbidden_responses, holds, normal
from palate.errors import SpecError
from palate.prompts import as_text, example_text, prompt_hash
from palate.records import Choice, Gold, Part, QuestionView, Settings, Shown, User, UserPool
from palate.retrieval import (
    Ordering,
    Ranked,
    Sorting,
    dense_by,
    drawn_by,
    latest_first,
    nearest_first,
    sorted_by,
)
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec
from palate.words import count_words

Order = Callable[[str, User, Sequence[Choice]], Ranked[Choice]]
"""(question, whose they are, choices oldest first) → choices, the first to be shown first."""
DEFAULT: dict[str, str | int] = {"order": "recent", "of": "self", "draws": DRAWS}


class Examples:
    """Shows what the user chose before.

    `examples:k?order=recent|random|nearest|nearest:REF`, past choices of the user or a stranger.

    A choice that holds the opening of one of the responses is left out and counted. With
    `?of=stranger` as many choices of a third user, drawn for each row, are shown as there would be
    of the user's own.
    `nearest` is BM25 over the questions, `nearest:REF` the cosine of their embeddings.
    """

    oracle = False
    empty = False
    needs = ("choices",)

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.only(DEFAULT)
        self.k = read_count(spec, "examples:5", "examples")
        self.of, self.draws = read_owner(spec)
        named = spec.options.get("order", "recent")
        self.order, model = _build_order(named, session, settings)
        self.fingerprint = digest("examples", prompt_hash("example.jinja"), model)
        plain = spec.model_copy(update={"reference": str(self.k)})
        self.spec = one_spelling(
            plain, {"order": named, "of": self.of, "draws": self.draws}, DEFAULT
        )

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return past choices in the order's order."""
        del gold
        ranked, dropped = self._ranked(view, user)
        choices = ranked.things[: self.k]
        words = _words(_parts(choices))
        if self.of == "self" or not choices:
            return Shown(
                parts=_parts(choices),
                own_words=words,
                leaks_dropped=dropped,
                search_unmatched=not ranked.matched,
            )
        stranger = pool.stranger("choices")
        ranked, dropped = Ranked([]), 0
        if stranger is not None:
            ranked, dropped = self._ranked(view, stranger)
        parts = _parts(ranked.things[: len(choices)])
        return Shown(
            parts=parts,
            own_words=words,
            leaks_dropped=dropped,
            shortfall_words=max(0, words - _words(parts)),
            no_stranger=stranger is None,
            search_unmatched=not ranked.matched,
        )

    def _ranked(self, view: QuestionView, user: User) -> tuple[Ranked[Choice], int]:
        forbidden = forbidden_responses(view)
        clean = [choice for choice in user.choices if not holds(_plain(choice), forbidden)]
        return self.order(view.query, user, clean), len(user.choices) - len(clean)


def _build_order(named: str, session: Session, settings: Settings) -> tuple[Order, str | None]:
    kind, _, reference = named.partition(":")
    by: dict[str, Ordering] = {"recent": latest_first, "nearest": nearest_first}
    model = None
    if named == "random":
        return partial(_at_random, settings.seed), None
    if kind == "nearest" and reference:
        by[named], model = dense_by(reference, session, settings)
    elif named not in by:
        raise SpecError(f"order={named!r} is not one of recent, random, nearest, nearest:REFERENCE")
    order: Sorting[Choice] = sorted_by(by[named], lambda choice: choice.query)
    return lambda question, user, choices: order(question, choices), model


def _at_random(seed: int, question: str, user: User, choices: Sequence[Choice]) -> Ranked[Choice]:
    order: Sorting[Choice] = drawn_by(
        lambda _, c: ("example", seed, user.id, c.key, c.chosen, c.rejected)
    )
    return order(question, choices)


@lru_cache(maxsize=2**16)  # rows of one user need not follow one another
def _plain(choice: Choice) -> str:
    # A turn may hold a response that is to be judged: the one that the user went on from.
    return normal(f"{as_text(choice.messages)}\n{choice.chosen}\n{choice.rejected}")


def _parts(choices: Sequence[Choice]) -> tuple[Part, ...]:
    return tuple(
        Part(kind="example", text=example_text(choice), rank=rank)
        for rank, choice in enumerate(choices)
    )


def _words(parts: Sequence[Part]) -> int:
    return sum(count_words(part.text) for part in parts)
