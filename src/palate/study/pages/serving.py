"""A study's pages on a socket, until the process is told to end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from palate.errors import ResourceError, UsageError, writing
from palate.files import whole_file
from palate.study.folder import Study, read_study

if TYPE_CHECKING:
    from palate.session import Session
    from palate.study.store import Chooser, StudyStore

LINKS = "links.csv"
EVERYWHERE = ("0.0.0.0", "::")


def serve_study(
    folder: Path | str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    url: str | None = None,
    arrive: str | None = None,
    onward: str | None = None,
    hold_minutes: float = 60,
    listening: Callable[[str, Path | None], None] = lambda *_: None,
    session: Session | None = None,
) -> None:
    """Serve a study's pages until SIGTERM or SIGINT.

    Without `arrive` the first start writes every rater's link into `links.csv` of the folder; with
    it, whoever comes with that parameter takes a place. `url` is the address that raters see,
    `onward` what the last page links. `listening` is called with the address and with the file of
    links where there is one. Call it in the main thread, which receives signals.

    Raises:
        UsageError: without palate[study], for an address that cannot be had or is none.
        RunError: for what is no study, or was changed since it was planned.
        ResourceError: for a full disk.
    """
    try:
        from palate.serve import AppServer, listen
        from palate.study.pages.app import create_app
    except ModuleNotFoundError as error:
        raise UsageError(
            f"palate study serve needs pip install 'palate[study]' ({error.name} is missing)"
        ) from error
    from palate.study.store import StudyStore

    base = "" if url is None else _checked("--url", url).rstrip("/")
    if onward is not None:
        _checked("--return", onward)
    if host in EVERYWHERE and url is None and arrive is None:
        raise UsageError(f"--host {host}: say with --url which address the raters' links have")
    study = read_study(folder)
    choose = _chooser(study, session)
    sock = listen(host, port)
    store = StudyStore.open(study, hold_minutes=hold_minutes, choose=choose)
    try:
        app = create_app(store, study, base=urlsplit(base).path, arrive=arrive, onward=onward)

        def ready(address: str) -> None:
            if arrive is None:
                write_links(store, study.folder / LINKS, base or address)
            listening(base or address, study.folder / LINKS if arrive is None else None)

        AppServer(app, sock).run_until_told(ready)
    finally:
        sock.close()
        store.close()


def write_links(store: StudyStore, path: Path, base: str) -> None:
    """Write every rater's link where none was written before; raises `ResourceError`."""
    tokens = store.issue_links()
    if not tokens:
        return
    with writing(path, ResourceError), whole_file(path) as stream:
        Path(stream.name).chmod(0o600)
        lines = [("rater", "link"), *((name, f"{base}/s/{it}") for name, it in tokens.items())]
        text = "".join(f"{name},{link}\n" for name, link in lines)
        stream.write(text.encode())


def _checked(option: str, address: str) -> str:
    """Return an address of the web; raises `UsageError` for anything else."""
    try:
        parts = urlsplit(address)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        wrong = True
    if wrong or not address.isprintable() or " " in address:
        raise UsageError(f"{option} {address}: expected an address that begins with http or https")
    return address


def _chooser(study: Study, session: Session | None) -> Chooser | None:
    if study.plan.mode == "judge":
        return None
    from palate.session import default_session
    from palate.study.collecting import choose_next

    return choose_next(study, session or default_session())
