"""The application of a study's pages: its routes, and a page for whatever goes wrong."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from palate.errors import ResourceError, RunError, UsageError
from palate.study.folder import Study
from palate.study.pages.rendering import go
from palate.study.pages.steps import NOT_SAVED, StudyPages
from palate.study.store import StudyStore

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
    for path in ("", "/{step}", "/{step}/{number}"):
        app.get(f"/s/{{token}}{path}")(pages.read)
    for path in ("/{step}", "/{step}/{number}"):
        app.post(f"/s/{{token}}{path}")(pages.write)

    def failed(_: Request, error: Exception) -> Response:
        status = 500
        if isinstance(error, HTTPException):
            status = error.status_code
            if status == 303 and error.headers:
                return go(error.headers["Location"])
        elif isinstance(error, ResourceError):
            logging.getLogger(__name__).warning("%s", error)
            status = NOT_SAVED
        elif isinstance(error, UsageError) and not isinstance(error, RunError):
            status = 404  # closed or forgotten while the page was open
        return pages.page("note.html", status, name=NOTES.get(status, "unread"))

    for kind in (HTTPException, ResourceError, UsageError, Exception):
        app.exception_handler(kind)(failed)
    return app
