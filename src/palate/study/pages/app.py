"""The application of a study's pages: its routes, and a page for whatever goes wrong."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from palate.errors import ResourceError, UsageError
from palate.study.folder import Study
from palate.study.pages.rendering import go
from palate.study.pages.steps import NOT_SAVED, StudyPages
from palate.study.store import StudyStore

NOTES = {404: "lost", 405: "lost", 413: "long", 500: "failed", NOT_SAVED: "not_saved"}


def create_app(store: StudyStore, study: Study, **more: Any) -> FastAPI:
    """Return the application; `more` is what `StudyPages` takes."""
    pages = StudyPages(store, study, **more)
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
            logging.getLogger(__name__).warning("%s: %s", type(error).__name__, error)
            # A plain `UsageError`: the link was closed, or the item forgotten, meanwhile.
            status = 404 if type(error) is UsageError else 500
            status = NOT_SAVED if isinstance(error, ResourceError) else status
        return pages.page("note.html", status, name=NOTES.get(status, "unread"))

    for kind in (HTTPException, ResourceError, UsageError, Exception):
        app.exception_handler(kind)(failed)
    return app
