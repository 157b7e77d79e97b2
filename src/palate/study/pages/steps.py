"""The steps of a rater: consent, questionnaire, practice, items, end; and stopping at any."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fastapi import HTTPException, Request, Response

from palate.errors import ResourceError
from palate.html import printable
from palate.study.folder import Study
from palate.study.pages.forms import Posted, PostedFields
from palate.study.pages.questions import AskedQuestion, practice_of, question_of
from palate.study.pages.rendering import PageRenderer, go
from palate.study.store import RaterState, StudyStore

log = logging.getLogger(__name__)
STEPS = ("consent", "about", "practice", "items", "end")
LONGEST_ARRIVAL, DAY = 200, 24 * 3600.0
WRONG, NO_PLACE, NOT_SAVED = 422, 503, 507


class Visit(NamedTuple):
    """A rater at a step."""

    token: str
    state: RaterState
    step: str
    n: int = 0
    """The number of a practice item or an item, from 1."""
    question: AskedQuestion | None = None


class StudyPages:
    """What each address answers."""

    def __init__(
        self, store: StudyStore, study: Study, base: str, arrive: str | None, onward: str | None
    ) -> None:
        self.store, self.plan, self.page = store, study.plan, PageRenderer(study.plan).page
        self._practice = practice_of(study)
        self._base, self._arrive, self._onward = base, arrive, onward

    def arrival(self, request: Request) -> Response:
        """Show the consent to who comes from a platform; the form takes the place."""
        name = self._arrival(request.query_params.get(self._arrive or "", ""))
        return self.page("consent.html", arrival=name)

    def take_place(self, fields: Posted) -> Response:
        """Take a place, or come back to it."""
        token = self.store.arrive(self._arrival(fields.values.get("arrival", "")))
        if token is None or (state := self.store.rater(token)) is None:
            return self.page("note.html", NO_PLACE, name="full")
        self.store.consent(state.rater)
        return self._on(token)

    def read(self, token: str, step: str = "", number: str = "0") -> Response:
        """Show a step that the rater has come to, or lead there; changes nothing."""
        if not step:
            return self._on(token)
        visit = self._visit(token, step, number)
        traits = visit.state.traits or {}
        values = {
            f"trait-{k}": str(trait.options.index(traits[trait.name]))
            for k, trait in enumerate(self.plan.traits)
            if traits.get(trait.name) in trait.options
        }
        return self._show(visit, visit.question.values if visit.question else values)

    def write(self, fields: Posted, token: str, step: str, number: str = "0") -> Response:
        """Keep what was sent and lead on; or show the page again with what was chosen."""
        visit = self._visit(token, step, number)
        if wrong := self._wrong(visit, fields):
            return self._show(visit, fields.values, WRONG, wrong=wrong)
        try:
            return self._keep(visit, fields.values)
        except ResourceError as error:
            log.warning("%s", error)
            return self._show(visit, fields.values, NOT_SAVED, notice="not_saved")

    def _wrong(self, visit: Visit, fields: PostedFields) -> list[str]:
        if visit.question:
            allowed = visit.question.allowed(fields.values.get("choice"))
            return fields.wrong(allowed, "since", "again")
        traits = enumerate(self.plan.traits if visit.step == "about" else ())
        numbers = {f"trait-{k}": range(len(trait.options)) for k, trait in traits}
        return fields.wrong({name: [str(k) for k in options] for name, options in numbers.items()})

    def _keep(self, visit: Visit, values: Mapping[str, str]) -> Response:
        rater, n, question = visit.state.rater, visit.n, visit.question
        if visit.step == "stop":
            try:
                self.store.delete(rater)
            except ResourceError as error:
                if self.store.rater(visit.token):
                    raise
                log.warning("%s (palate study forget, %s)", error, rater)
            return self.page("note.html", name="deleted")
        if visit.step == "consent":
            self.store.consent(rater)
        elif visit.step == "about":
            chosen = [int(values[f"trait-{k}"]) for k in range(len(self.plan.traits))]
            traits = zip(self.plan.traits, chosen, strict=True)
            self.store.set_traits(rater, {it.name: it.options[k] for it, k in traits})
        elif question and visit.step == "practice":
            if values["choice"] != question.expected and "again" not in values:
                return self._show(visit, {**values, "again": "1"}, notice="practice_again")
            self.store.pass_practice(rater, max(n, visit.state.practice))
            return go(self._path(visit.token, "practice", n))
        elif question:
            seconds = _seconds_since(values.get("since", ""))
            self.store.save(rater, n - 1, question.to_answer(values, seconds))
            return self._on(visit.token, n)
        return self._on(visit.token)

    def _show(
        self, visit: Visit, values: Mapping[str, str], status: int = 200, **more: object
    ) -> Response:
        """Return the page of a step; its template bears the step's name."""
        token, state, step, n, question = visit
        explained = step == "practice" and n <= state.practice
        back = {"items": n, "end": state.next_position + 1}.get(step, 0)
        earlier = self._first(state, range(back - 1, 0, -1))
        return self.page(
            f"{step}.html",
            status,
            root=self._path(token),
            state=state,
            n=n,
            question=question,
            values={"since": f"{time.time():.3f}", **values},
            explained=explained,
            practice=len(self._practice),
            earlier=earlier and self._path(token, "items", earlier),
            onward=self._onward,
            **more,
        )

    def _visit(self, token: str, step: str, number: str) -> Visit:
        """Return where a request stands; raise what is answered where it may not."""
        n = int(number) if number.isdecimal() and len(number) < 7 else -1
        state = self._state(token)
        if step == "stop" and n == 0:
            return Visit(token, state, step)
        here, question = self._place(state), None
        if step not in STEPS or (n > 0) != (step in STEPS[2:4]):
            raise HTTPException(404)
        if (place := (STEPS.index(step), n)) > here and place[0] > here[0]:
            raise HTTPException(303, headers={"Location": self._path(token)})
        if step == "practice":
            question = self._practice[n - 1] if n <= len(self._practice) else None
        elif step == "items":
            question = self._question(state, n)
        if place > here or (n and question is None):
            raise HTTPException(404)
        return Visit(token, state, step, n, question)

    def _place(self, state: RaterState) -> tuple[int, int]:
        """Return the step at which a rater stands, and the number within it."""
        if not state.consented:
            return 0, 0
        if self.plan.traits and state.traits is None:
            return 1, 0
        if state.practice < len(self._practice):
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
        if (following := self._first(state, later)) is not None:
            step, n = STEPS.index("items"), following
        return go(self._path(token, STEPS[step], n))

    def _path(self, token: str, *parts: str | int) -> str:
        return "/".join([self._base, "s", token, *(str(part) for part in parts if part)])

    def _arrival(self, name: str) -> str:
        if not self._arrive or not 0 < len(name) <= LONGEST_ARRIVAL or name != printable(name):
            raise HTTPException(404)
        return name


def _seconds_since(text: str) -> float | None:
    """Return how long ago a page was made; None for what no page says."""
    try:
        seconds = time.time() - float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds <= DAY else None
