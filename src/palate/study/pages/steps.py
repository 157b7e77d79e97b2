"""The steps of a rater: consent, questionnaire, practice, items, end; and stopping at any."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from fastapi import HTTPException, Request, Response

from palate.errors import ResourceError
from palate.html import printable
from palate.study.folder import Study
from palate.study.pages.forms import Posted
from palate.study.pages.markdown import rendered, rendered_consent
from palate.study.pages.questions import QuestionWriter, to_answer, to_fields
from palate.study.pages.rendering import PageRenderer, fill
from palate.study.store import AskedEntry, RaterState, StudyStore

log = logging.getLogger(__name__)
CONSENT, ABOUT, PRACTICE, ITEMS, END = range(5)
PATHS = ("", "/about", "/practice/", "/items/", "/end")
TRIES = 2
LONGEST_ARRIVAL = 200
LONGEST_SECONDS = 24 * 3600.0
NOT_SAVED = 507
Place = tuple[int, int]
"""A step, and the number of a practice item or an item; 0 for the other steps."""


class StudyPages:
    """What each address answers."""

    def __init__(
        self, store: StudyStore, study: Study, base: str, arrive: str | None, onward: str | None
    ) -> None:
        self.store, self.plan, self.words = store, study.plan, study.plan.texts
        self.renderer, self.writer = PageRenderer(self.words), QuestionWriter(study)
        self.practice = self.writer.practice()
        self._base, self._arrive, self._onward = base, arrive, onward

    # A place on arrival

    def arrival(self, request: Request) -> Response:
        """Show the consent to who comes from a platform; the place is taken by the form."""
        name = request.query_params.get(self._arrive, "") if self._arrive else ""
        return self._consent(arrival=self._arrival(name))

    def take_place(self, fields: Posted) -> Response:
        """Take the place, or come back to it."""
        token = self.store.arrive(self._arrival(fields.values.get("arrival", "")))
        state = None if token is None else self.store.rater(token)
        if token is None or state is None:
            return self.renderer.note("full", 503)
        self.store.consent(state.rater)
        return self._go(token)

    def _arrival(self, name: str) -> str:
        if not self._arrive or not 0 < len(name) <= LONGEST_ARRIVAL or name != printable(name):
            raise HTTPException(404)
        return name

    # Consent, questionnaire, end

    def start(self, token: str) -> Response:
        """Show the consent, or lead on to where the rater stands."""
        if self._state(token).consented:
            return self._go(token)
        return self._consent(stop=self._path(token, "/stop"))

    def consent(self, token: str, _: Posted) -> Response:
        """Keep the consent."""
        self.store.consent(self._state(token).rater)
        return self._go(token)

    def about(self, token: str) -> Response:
        """Show the questionnaire."""
        state = self._at(token, ABOUT)
        given = state.traits or {}
        values = {
            f"trait-{k}": str(trait.options.index(given[trait.name]))
            for k, trait in enumerate(self.plan.traits)
            if given.get(trait.name) in trait.options
        }
        return self._about(token, values)

    def post_about(self, token: str, fields: Posted) -> Response:
        """Keep what a rater says of themselves."""
        state = self._at(token, ABOUT)
        if problems := fields.problems(self.writer.traits(), self.words["field_unknown"]):
            return self._about(token, fields.values, 422, problems=problems)
        traits = {
            trait.name: trait.options[int(fields.values[f"trait-{k}"])]
            for k, trait in enumerate(self.plan.traits)
        }
        try:
            self.store.set_traits(state.rater, traits)
        except ResourceError as error:
            return self._about(token, fields.values, NOT_SAVED, notice=self._not_saved(error))
        return self._go(token)

    def end(self, token: str) -> Response:
        """Thank the rater."""
        state = self._at(token, END)
        links = [(self._onward, self.words["end_return"])] if self._onward else []
        if last := self._before(token, state, state.next_position + 1):
            links.append((last, self.words["end_review"]))
        return self.renderer.note("end", links=links, stop=self._path(token, "/stop"))

    # Practice

    def practice_item(self, token: str, number: str) -> Response:
        """Show a practice item, with its explanation where it was passed."""
        n = _number(number)
        state = self._at(token, PRACTICE, n)
        return self._practice(token, n, explained=n <= state.practice)

    def post_practice(self, token: str, number: str, fields: Posted) -> Response:
        """Take the choice that is expected, or whatever is chosen at the second try."""
        n = _number(number)
        state = self._at(token, PRACTICE, n)
        question, expected, _ = self.practice[n - 1]
        again = "again" in fields.values
        if problems := question.problems(fields, self.words["field_unknown"], "again"):
            return self._practice(token, n, fields.values, 422, problems=problems, again=again)
        if fields.values["choice"] != expected and not again and n > state.practice:
            notice = self.words["practice_again"]
            return self._practice(token, n, fields.values, notice=notice, again=True)
        self.store.pass_practice(state.rater, max(n, state.practice))
        return self.renderer.go(self._path(token, f"/practice/{n}"))

    # Items

    def item(self, token: str, number: str) -> Response:
        """Show the next item, or one that was answered."""
        n = _number(number)
        state, asked = self._asked(token, n)
        values = to_fields(asked.given, asked.entry.swapped)
        return self._item(token, n, state, asked, {**values, "since": str(time.time_ns())})

    def post_item(self, token: str, number: str, fields: Posted) -> Response:
        """Keep an answer, and lead on once it is on disk."""
        n = _number(number)
        state, asked = self._asked(token, n)
        question = self.writer.of_entry(asked)
        if problems := question.problems(fields, self.words["field_unknown"], "since"):
            return self._item(token, n, state, asked, fields.values, 422, problems=problems)
        given = to_answer(question, fields, asked.entry.swapped, _seconds_since(fields.values))
        try:
            self.store.save(state.rater, n - 1, given)
        except ResourceError as error:
            notice = self._not_saved(error)
            return self._item(token, n, state, asked, fields.values, NOT_SAVED, notice=notice)
        return self._go(token, after=n)

    # Stopping

    def stop(self, token: str) -> Response:
        """Ask whether all is to be deleted."""
        self._state(token)
        confirm = self.words["stop_confirm"]
        return self.renderer.note("stop", confirm=confirm, back=self._path(token))

    def delete(self, token: str, _: Posted) -> Response:
        """Delete all that is kept of the rater."""
        rater = self._state(token).rater
        try:
            self.store.delete(rater)
        except ResourceError as error:
            if self.store.rater(token) is not None:
                raise
            log.warning("%s; then run palate study forget with %s", error, rater)
        return self.renderer.note("deleted")

    # What these share

    def _state(self, token: str) -> RaterState:
        state = self.store.rater(token)
        if state is None:
            raise HTTPException(404)
        return state

    def _place(self, state: RaterState) -> Place:
        if not state.consented:
            return CONSENT, 0
        if self.plan.traits and state.traits is None:
            return ABOUT, 0
        if state.practice < len(self.practice):
            return PRACTICE, state.practice + 1
        return (END, 0) if state.finished else (ITEMS, state.next_position + 1)

    def _at(self, token: str, step: int, n: int = 0) -> RaterState:
        """Return where a rater stands, who is led back where this step is still to come."""
        state = self._state(token)
        here = self._place(state)
        if step > here[0]:
            raise HTTPException(303, headers={"Location": self._path(token)})
        if (step, n) > here or (step == PRACTICE and n > len(self.practice)):
            raise HTTPException(404)
        return state

    def _asked(self, token: str, n: int) -> tuple[RaterState, AskedEntry]:
        state = self._at(token, ITEMS, n)
        asked = self._entry(state, n)
        if asked is None:
            raise HTTPException(404)
        return state, asked

    def _entry(self, state: RaterState, n: int) -> AskedEntry | None:
        asked = self.store.entry(state.rater, n - 1)
        return None if asked is None or asked.item is None else asked

    def _before(self, token: str, state: RaterState, n: int) -> str | None:
        earlier = (k for k in range(n - 1, 0, -1) if self._entry(state, k))
        return next((self._path(token, f"/items/{k}") for k in earlier), None)

    def _path(self, token: str, rest: str = "") -> str:
        return f"{self._base}/s/{token}{rest}"

    def _go(self, token: str, after: int | None = None) -> Response:
        """Lead on to where the rater stands, or to what was answered after an item."""
        state = self._state(token)
        step, n = self._place(state)
        if after is not None:
            later = (k for k in range(after + 1, state.next_position + 1) if self._entry(state, k))
            step, n = next(((ITEMS, k) for k in later), (step, n))
        return self.renderer.go(self._path(token, f"{PATHS[step]}{n or ''}"))

    def _consent(self, **more: Any) -> Response:
        title, consent = self.words["consent_title"], rendered_consent(self.plan.consent)
        return self.renderer.page("consent.html", title, consent=consent, **more)

    def _about(
        self, token: str, values: Mapping[str, str], status: int = 200, **more: Any
    ) -> Response:
        more |= {"groups": self.writer.traits(), "values": values}
        stop = self._path(token, "/stop")
        return self.renderer.page(
            "about.html", self.words["about_title"], status, stop=stop, **more
        )

    def _practice(
        self,
        token: str,
        n: int,
        values: Mapping[str, str] | None = None,
        status: int = 200,
        *,
        again: bool = False,
        explained: bool = False,
        **more: Any,
    ) -> Response:
        question, expected, why = self.practice[n - 1]
        parts, total = question.parts(self.words), len(self.practice)
        parts["hint"] = f"{self.words['practice_hint']} {parts['hint']}"
        if explained:
            right = fill(self.words["practice_right"], answer=expected.upper())
            more |= {"explanation": rendered(why), "right": right, "go_on": self._path(token)}
        return self.renderer.page(
            "item.html",
            self.words[f"{question.asks}_title"],
            status,
            progress=(n - 1, total, fill(self.words["practice_title"], n=n, total=total)),
            values=values or {},
            hidden={"again": "1"} if again else {},
            stop=self._path(token, "/stop"),
            wide=True,
            **parts,
            **more,
        )

    def _item(
        self,
        token: str,
        n: int,
        state: RaterState,
        asked: AskedEntry,
        values: Mapping[str, str],
        status: int = 200,
        **more: Any,
    ) -> Response:
        question = self.writer.of_entry(asked)
        progress = fill(self.words["progress"], n=state.answered, total=state.total)
        since = values.get("since", "")
        return self.renderer.page(
            "item.html",
            self.words[f"{question.asks}_title"],
            status,
            progress=(state.answered, state.total, progress),
            values=values,
            hidden={"since": since if _since(since) else str(time.time_ns())},
            back=self._before(token, state, n),
            to_open=None if asked.given is None else self._path(token),
            stop=self._path(token, "/stop"),
            wide=True,
            **question.parts(self.words),
            **more,
        )

    def _not_saved(self, error: ResourceError) -> str:
        log.warning("%s", error)
        return self.words["not_saved"]


def _number(text: str) -> int:
    """Return the number in an address; raise what is answered as 404."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 6 and int(text)):
        raise HTTPException(404)
    return int(text)


def _since(text: str) -> int | None:
    """Return when a page was made, in nanoseconds; None for what no page said."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _seconds_since(values: Mapping[str, str]) -> float | None:
    since = _since(values.get("since", ""))
    seconds = None if since is None else (time.time_ns() - since) / 1e9
    return seconds if seconds is not None and 0 <= seconds <= LONGEST_SECONDS else None
