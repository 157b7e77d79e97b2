"""The application of a study's pages: its routes, and a page for whatever goes wrong."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from palate.errors import ResourceError, RunError, UsageError
from palate.study.folder import Study
from palate.study.pages.steps import NOT_SAVED, StudyPages
from palate.study.store import StudyStore

log = logging.getLogger(__name__)
NOTES = {404: "lost", 405: "lost", 413: "long", 500: "failed", NOT_SAVED: "not_saved"}


def create_app(
    store: StudyStore,
    study: Study,
    *,
    base: str = "",
    arrive: str | None = None,
    onward: str | None = None,
) -> FastAPI:
    """Return the application.

    `base` is the path under which a proxy offers it, `arrive` the parameter of an address that
    names who arrives, and `onward` the address that the last page links.
    """
    pages = StudyPages(store, study, base, arrive, onward)
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.get("/")(pages.arrival)
    app.post("/")(pages.take_place)
    for path, read, write in (
        ("", pages.start, pages.consent),
        ("/about", pages.about, pages.post_about),
        ("/practice/{number}", pages.practice_item, pages.post_practice),
        ("/items/{number}", pages.item, pages.post_item),
        ("/stop", pages.stop, pages.delete),
    ):
        app.get(f"/s/{{token}}{path}")(read)
        app.post(f"/s/{{token}}{path}")(write)
    app.get("/s/{token}/end")(pages.end)

    def note(status: int) -> Response:
        return pages.renderer.note(NOTES.get(status, "unread"), status)

    def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 303 and error.headers:
            return pages.renderer.go(error.headers["Location"])
        return note(error.status_code)

    def not_saved(_: Request, error: Exception) -> Response:
        log.warning("%s", error)
        return note(NOT_SAVED)

    app.exception_handler(HTTPException)(refused)
    # Closed or forgotten while the page was open.
    app.exception_handler(UsageError)(lambda *_: note(404))
    app.exception_handler(ResourceError)(not_saved)
    for broken in (RunError, Exception):
        app.exception_handler(broken)(lambda *_: note(500))
    return app
