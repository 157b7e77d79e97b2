"""The steps of a rater: consent, questionnaire, practice, items, end; and stopping at any."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, Request, Response
from starlette.exceptions import HTTPException

from palate.errors import ResourceError, UsageError
from palate.html import printable
from palate.records import Part, normal_form
from palate.study.database import AskedEntry, GivenAnswer, RaterState
from palate.study.page_rendering import PageRenderer, go
from palate.study.records import DIMENSIONS, HIGHEST, LOWEST, Study, StudyPlan
from palate.study.store import StudyStore

log = logging.getLogger(__name__)
STEPS = ("consent", "about", "practice", "items", "end")
NUMBERED = STEPS[2:4]
LONGEST_ARRIVAL = 200
PLACEHOLDER = {*"{}%$"}
"""Marks of a link's place for an id, as `{{%PROLIFIC_PID%}}`, that nothing was filled into."""
NO_IDS = {
    *("", "id", "pid", "no id", "undefined", "null", "none", "nil", "nan", "na", "n a", "unknown"),
    *("anonymous", "test", "testing", "preview", "object object", "not available"),
    "assignment id not available",
}
"""Words of what platforms fill in where they know nobody: all who come so would be one rater."""
UNNAMED, NOT_SAVED = 400, 507
MOST_BYTES, MOST_FIELDS = 64 * 1024, 64
URLENCODED = "application/x-www-form-urlencoded"
SIDES = ("a", "b")
"""The two answers of a page."""
SCORES = tuple(str(n) for n in range(LOWEST, HIGHEST + 1))
NOTES = {UNNAMED: "unnamed", 404: "lost", 405: "lost", 413: "long", 500: "failed"}
NOTES[NOT_SAVED] = "not_saved"


def create_app(store: StudyStore, **more: Any) -> FastAPI:
    """Return the application; `more` is what `StudyPages` takes."""
    pages = StudyPages(store, **more)
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.get("/")(pages.arrival)
    app.post("/")(pages.take_place)
    for path in ("", "/{step}", "/{step}/{number}"):
        app.get(f"/s/{{token}}{path}")(pages.read)
    for path in ("/{step}", "/{step}/{number}"):
        app.post(f"/s/{{token}}{path}")(pages.write)

    def failed(_: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            if error.status_code == 303 and error.headers:
                return go(error.headers["Location"])
            status = error.status_code
        else:
            log.warning("%s: %s", type(error).__name__, error)
            # A plain `UsageError`: the link was closed, or the item forgotten, meanwhile.
            status = 404 if type(error) is UsageError else 500
            status = NOT_SAVED if isinstance(error, ResourceError) else status
        return pages.page("note.html", status, name=NOTES.get(status, "unread"))

    for kind in (HTTPException, ResourceError, UsageError, Exception):
        app.exception_handler(kind)(failed)
    return app


@dataclass(frozen=True)
class Visit:
    """A rater at a step; items and practice items are numbered from 1."""

    token: str
    state: RaterState
    step: str
    n: int
    question: AskedQuestion | None


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


@dataclass
class StudyPages:
    """What each address answers.

    `base` is the path under which a proxy offers it, `arrive` the parameter of an address that
    names who arrives, and `onward` the address that the last page links.
    """

    store: StudyStore
    base: str = ""
    arrive: str | None = None
    onward: str | None = None

    def __post_init__(self) -> None:
        """Fix what does not change."""
        self.plan = self.store.planned.plan
        self.page, self.practice = PageRenderer(self.plan).page, practice_of(self.store.planned)

    def arrival(self, request: Request) -> Response:
        """Show the consent to who comes from a platform; the form takes the place."""
        names = request.query_params.getlist(self.arrive or "")
        return self.page("consent.html", arrival=self._arrival(names))

    def take_place(self, fields: Posted) -> Response:
        """Take a place, or come back to it."""
        names = [fields.values["arrival"]] if "arrival" in fields.values else []
        token = self.store.arrive(self._arrival(names))
        if token is None:
            return self.page("note.html", 409, name="full")
        self.store.consent(self._state(token).rater)
        return self._on(token)

    def read(self, token: str, step: str = "", number: str = "0") -> Response:
        """Show a step that the rater has come to, or lead there; changes nothing."""
        if not step:
            return self._on(token)
        visit = self._visit(token, step, number)
        if visit.question:
            return self._show(visit, visit.question.values)
        traits, chosen = enumerate(self.plan.traits), visit.state.traits or {}
        about = {f"trait-{k}": chosen[t.name] for k, t in traits if t.name in chosen}
        return self._show(visit, about)

    def write(self, fields: Posted, token: str, step: str, number: str = "0") -> Response:
        """Keep what was sent and lead on; or show the page again with what was chosen."""
        visit, values = self._visit(token, step, number), fields.values
        traits = self.plan.traits if step == "about" else ()
        options = {f"trait-{k}": trait.options for k, trait in enumerate(traits)}
        allowed = visit.question.allowed(values.get("choice")) if visit.question else options
        if wrong := fields.wrong(allowed, "since", "again"):
            return self._show(visit, values, 422, wrong=wrong)
        try:
            return self._keep(visit, values)
        except ResourceError as error:
            log.warning("%s", error)
            return self._show(visit, values, NOT_SAVED, notice="not_saved")

    def _keep(self, visit: Visit, values: Mapping[str, str]) -> Response:
        rater, question = visit.state.rater, visit.question
        if visit.step == "stop":
            return self._delete(visit)
        if visit.step == "consent":
            self.store.consent(rater)
        elif visit.step == "about":
            named = enumerate(self.plan.traits)
            self.store.set_traits(rater, {t.name: values[f"trait-{k}"] for k, t in named})
        elif visit.step == "practice" and question:
            if values["choice"] != question.expected and "again" not in values:
                return self._show(visit, {**values, "again": "1"}, notice="practice_again")
            self.store.pass_practice(rater, max(visit.n, visit.state.practice))
            return go(self._path(visit.token, "practice", visit.n))
        elif question:
            answer = question.to_answer(values, _seconds_since(values.get("since", "")))
            self.store.save(rater, visit.n - 1, answer)
        return self._on(visit.token, visit.n)

    def _delete(self, visit: Visit) -> Response:
        try:
            self.store.delete(visit.state.rater)
        except ResourceError as error:
            if self.store.rater(visit.token):
                raise
            log.warning("%s (palate study forget, %s)", error, visit.state.rater)
        return self.page("note.html", name="deleted")

    def _show(
        self, visit: Visit, values: Mapping[str, str], status: int = 200, **more: object
    ) -> Response:
        """Return the page of a step; its template bears the step's name."""
        state, is_practice = visit.state, visit.step == "practice"
        before = {"items": visit.n, "end": state.next_position + 1}.get(visit.step, 0)
        earlier = self._first(state, range(before - 1, 0, -1))
        context = {
            "values": {"since": f"{time.time():.3f}", **values},
            "earlier": earlier and self._path(visit.token, "items", earlier),
            "explained": is_practice and visit.n <= state.practice,
            "practice": len(self.practice),
            "root": self._path(visit.token),
            "onward": self.onward,
        }
        return self.page(f"{visit.step}.html", status, **vars(visit), **context, **more)

    def _visit(self, token: str, step: str, number: str) -> Visit:
        """Return where a request stands; raise what is answered where it may not."""
        n = int(number) if number.isdecimal() and len(number) < 7 else -1
        state, question = self._state(token), None
        here, place = self._place(state), (STEPS.index(step) if step in STEPS else -1, n)
        if place[0] > here[0]:
            raise HTTPException(303, headers={"Location": self._path(token)})
        if place <= here and step == "items":
            question = self._question(state, n)
        elif place <= here and step == "practice":
            question = dict(enumerate(self.practice, 1)).get(n)
        if step not in (*STEPS, "stop") or (question is None if step in NUMBERED else n):
            raise HTTPException(404)
        return Visit(token, state, step, n, question)

    def _place(self, state: RaterState) -> tuple[int, int]:
        """Return the step at which a rater stands, and the number within it."""
        if not state.consented:
            return 0, 0
        if self.plan.traits and state.traits is None:
            return 1, 0
        if state.practice < len(self.practice):
            return 2, state.practice + 1
        return (4, 0) if state.finished else (3, state.next_position + 1)

    def _state(self, token: str) -> RaterState:
        if (state := self.store.rater(token)) is None:
            raise HTTPException(404)
        return state

    def _question(self, state: RaterState, n: int) -> AskedQuestion | None:
        return question_of(self.store.entry(state.rater, n - 1), self.plan)

    def _first(self, state: RaterState, numbers: Iterable[int]) -> int | None:
        """Return the first of these items that was not forgotten."""
        return next((n for n in numbers if self._question(state, n)), None)

    def _on(self, token: str, after: int = 0) -> Response:
        """Lead on to where a rater stands, or to what was answered after an item."""
        state = self._state(token)
        step, n = self._place(state)
        later = range(after + 1, state.next_position + 2) if after else ()
        if following := self._first(state, later):
            step, n = STEPS.index("items"), following
        return go(self._path(token, STEPS[step], n))

    def _path(self, token: str, *parts: str | int) -> str:
        return "/".join([self.base, "s", token, *(str(part) for part in parts if part)])

    def _arrival(self, names: Sequence[str]) -> str:
        """Return who arrives; raises where that is nobody, or may be anybody."""
        if not self.arrive or not names or any(name != printable(name) for name in names):
            raise HTTPException(404)
        name, *others = dict.fromkeys(map(normal_form, names))
        if len(name) > LONGEST_ARRIVAL:
            raise HTTPException(404)
        no_ids = NO_IDS | {_id_words(self.arrive)}
        if others or _id_words(name) in no_ids or not PLACEHOLDER.isdisjoint(name):
            raise HTTPException(UNNAMED)
        return name


def _id_words(name: str) -> str:
    """Return a name's letters and digits, as words in lower case."""
    return " ".join(re.findall(r"[^\W_]+", name.casefold()))


def _seconds_since(text: str) -> float | None:
    """Return how long ago a page was made; None for what no page says."""
    with suppress(ValueError):
        seconds = time.time() - float(text)
        return seconds if 0 <= seconds < float("inf") else None
    return None


class AskedQuestion(NamedTuple):
    """An item, or one for practice, as a page shows it."""

    asks: str
    """`better`; `prefers`; or `own`, of a collection."""
    turns: Sequence[tuple[str, str]]
    posts: Sequence[Part]
    answers: Sequence[str]
    sides: Mapping[str, str] = {}
    """Which side is the item's first answer, and which its second."""
    values: Mapping[str, str] = {}
    """The form of an earlier answer."""
    expected: str = ""
    """Of a practice item: the side that fits better, and why."""
    explanation: str = ""
    rated: bool = False
    """Whether both answers are rated too."""

    def allowed(self, choice: str | None) -> dict[str, tuple[str | None, ...]]:
        """Return the values of every field; who skips may leave out ratings."""
        scores = (None, *SCORES) if choice == "skip" else SCORES
        rated = SIDES if self.rated else ()
        ratings = {f"{name}_{side}": scores for side in rated for name in DIMENSIONS}
        return {"choice": (*SIDES, "same", "skip"), **ratings}

    def to_answer(self, values: Mapping[str, str], seconds: float | None) -> GivenAnswer:
        """Return what a whole form says of the item's two answers."""
        choice = {side: name for name, side in self.sides.items()}.get(values["choice"])
        rated = DIMENSIONS if self.rated and values["choice"] != "skip" else ()
        ratings = {n: [int(values[f"{n}_{side}"]) for side in self.sides.values()] for n in rated}
        answer = {"choice": choice or values["choice"], "ratings": ratings, "seconds": seconds}
        return GivenAnswer.model_validate(answer)


def question_of(place: AskedEntry | None, plan: StudyPlan) -> AskedQuestion | None:
    """Return a place of a rater's list as a page shows it; None past its end, or forgotten."""
    if place is None or (item := place.item) is None:
        return None
    step = -1 if place.entry.swapped else 1
    sides = dict(zip(("first", "second"), SIDES[::step], strict=True))
    values: dict[str, str] = {}
    if given := place.given:
        values["choice"] = sides.get(given.choice, given.choice)
        for name, both in given.ratings.items():
            values |= {f"{name}_{s}": str(n) for s, n in zip(sides.values(), both, strict=True)}
    asks = item.asks if plan.mode == "judge" else "own"
    rated = plan.rated and asks == "better"
    turns = [(message.role, message.content) for message in item.question]
    return AskedQuestion(asks, turns, item.shown, item.answers[::step], sides, values, rated=rated)


def practice_of(study: Study) -> list[AskedQuestion]:
    """Return two items for practice, of the kinds that are asked; none of a collection."""
    words, listed = study.plan.texts, []
    kinds = {item.asks for item in study.items.values() if study.plan.mode == "judge"}
    for name, kind in (("practice_1", "better"), ("practice_2", "prefers")) if kinds else ():
        asks = kind if kind in kinds else min(kinds)
        posts = [Part(kind="post", text=words[f"{name}_post"])] if asks == "prefers" else []
        answers = [words[f"{name}_{side}"] for side in SIDES]
        turns, why = [("user", words[f"{name}_question"])], words[f"{name}_explanation"]
        side = words[f"{name}_expected"]
        question = AskedQuestion(asks, turns, posts, answers, expected=side, explanation=why)
        listed.append(question._replace(rated=study.plan.rated and asks == "better"))
    return listed
