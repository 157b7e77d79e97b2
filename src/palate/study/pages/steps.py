"""The steps of a rater: consent, questionnaire, practice, items, end; and stopping at any."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fastapi import HTTPException, Request, Response

from palate.errors import ResourceError
from palate.html import printable
from palate.study.folder import Study
from palate.study.pages.forms import Posted
from palate.study.pages.questions import AskedQuestion, practice_of, question_of
from palate.study.pages.rendering import PageRenderer, go
from palate.study.store import RaterState, StudyStore

log = logging.getLogger(__name__)
STEPS = ("consent", "about", "practice", "items", "end")
NUMBERED = STEPS[2:4]
LONGEST_ARRIVAL = 200
NOT_SAVED = 507


class Visit(NamedTuple):
    """A rater at a step; items and practice items are numbered from 1."""

    token: str
    state: RaterState
    step: str
    n: int
    question: AskedQuestion | None


@dataclass
class StudyPages:
    """What each address answers.

    `base` is the path under which a proxy offers it, `arrive` the parameter of an address that
    names who arrives, and `onward` the address that the last page links.
    """

    store: StudyStore
    study: Study
    base: str = ""
    arrive: str | None = None
    onward: str | None = None

    def __post_init__(self) -> None:
        """Fix what does not change."""
        self.plan, self.page = self.study.plan, PageRenderer(self.study.plan).page
        self.practice = practice_of(self.study)

    def arrival(self, request: Request) -> Response:
        """Show the consent to who comes from a platform; the form takes the place."""
        name = request.query_params.get(self.arrive or "", "")
        return self.page("consent.html", arrival=self._arrival(name))

    def take_place(self, fields: Posted) -> Response:
        """Take a place, or come back to it."""
        token = self.store.arrive(self._arrival(fields.values.get("arrival", "")))
        if token is None:
            return self.page("note.html", 409, name="full")
        self.store.consent(self._state(token).rater)
        return self._on(token)

    def read(self, token: str, step: str = "", number: str = "0") -> Response:
        """Show a step that the rater has come to, or lead there; changes nothing."""
        if not step:
            return self._on(token)
        visit = self._visit(token, step, number)
        traits = {trait.name: f"trait-{k}" for k, trait in enumerate(self.plan.traits)}
        about = {traits[name]: value for name, value in (visit.state.traits or {}).items()}
        return self._show(visit, visit.question.values if visit.question else about)

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
        token, state, step, n, question = visit
        if step == "stop":
            return self._delete(visit)
        if step == "consent":
            self.store.consent(state.rater)
        elif step == "about":
            traits = {it.name: values[f"trait-{k}"] for k, it in enumerate(self.plan.traits)}
            self.store.set_traits(state.rater, traits)
        elif step == "practice" and question:
            if values["choice"] != question.expected and "again" not in values:
                return self._show(visit, {**values, "again": "1"}, notice="practice_again")
            self.store.pass_practice(state.rater, max(n, state.practice))
            return go(self._path(token, step, n))
        elif question:
            answer = question.to_answer(values, _seconds_since(values.get("since", "")))
            self.store.save(state.rater, n - 1, answer)
        return self._on(token, n)

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
        state, step, n = visit[1:4]
        before = {"items": n, "end": state.next_position + 1}.get(step, 0)
        earlier = self._first(state, range(before - 1, 0, -1))
        more |= {"values": {"since": f"{time.time():.3f}", **values}, "onward": self.onward}
        more |= {"explained": step == "practice" and n <= state.practice, **visit._asdict()}
        more |= {"earlier": earlier and self._path(visit.token, "items", earlier)}
        more |= {"root": self._path(visit.token), "practice": len(self.practice)}
        return self.page(f"{step}.html", status, **more)

    def _visit(self, token: str, step: str, number: str) -> Visit:
        """Return where a request stands; raise what is answered where it may not."""
        n = int(number) if number.isdecimal() and len(number) < 7 else -1
        state, question = self._state(token), None
        here = self._place(state)
        place = (STEPS.index(step) if step in STEPS else -1, n)
        if place[0] > here[0]:
            raise HTTPException(303, headers={"Location": self._path(token)})
        if step == "items" and place <= here:
            question = self._question(state, n)
        elif step == "practice" and place <= here:
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
        return question_of(self.store.entry(state.rater, n - 1), self.plan.mode)

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

    def _arrival(self, name: str) -> str:
        if not self.arrive or not 0 < len(name) <= LONGEST_ARRIVAL or name != printable(name):
            raise HTTPException(404)
        return name


def _seconds_since(text: str) -> float | None:
    """Return how long ago a page was made; None for what no page says."""
    try:
        seconds = time.time() - float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
