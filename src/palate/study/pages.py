"""A study's pages on a socket, until the process is told to end."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from palate.errors import ResourceError, UsageError, writing
from palate.files import whole_file
from palate.study.records import LINKS, read_study

if TYPE_CHECKING:
    from palate.study.store import StudyStore

WEB = re.compile(r"https?://[\w.:\[\]-]+([/?#][!-~]*)?")


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
) -> None:
    """Serve a study's pages until SIGTERM or SIGINT; call it in the main thread.

    Without `arrive` the first start writes the raters' links into the folder's `links.csv`; with
    it, whoever comes with that parameter takes a place. `url` is the address that raters see,
    `onward` what the last page links. `listening` is called with the address and the file of links.
    Raises `UsageError` without palate[study] and for an address that cannot be had or is none,
    `RunError` for what is no study or was changed, `ResourceError` for a full disk.
    """
    try:
        from palate.serve.server import AppServer, listen
        from palate.study.steps import create_app
        from palate.study.store import StudyStore
    except ModuleNotFoundError as error:
        needs = "palate study serve needs pip install 'palate[study]'"
        raise UsageError(f"{needs} ({error.name} is missing)") from error
    if not hold_minutes >= 1:
        raise UsageError(f"--hold {hold_minutes:g}: expected a minute or more")
    for option, given in {"--url": url, "--return": onward}.items():
        if given is not None and not WEB.fullmatch(given):
            raise UsageError(f"{option} {given}: expected an address as https://example.org/path")
    if arrive == "":
        raise UsageError("--arrive: expected the name of a parameter, as PROLIFIC_PID")
    if host in ("0.0.0.0", "::") and url is None and arrive is None:
        raise UsageError(f"--host {host}: say with --url which address the raters' links have")
    study, choose = read_study(folder), None
    if study.plan.mode == "collect":
        from palate.session import default_session
        from palate.study.collecting import choose_next

        choose = choose_next(study, default_session())
    sock = listen(host, port)
    with sock, closing(StudyStore(study, hold_minutes=hold_minutes, choose=choose)) as store:

        def ready(here: str) -> None:
            address, links = (url or here).rstrip("/"), None if arrive else study.folder / LINKS
            if links:
                write_links(store, links, address, anew=url is not None)
            listening(address, links)

        base = urlsplit(url or "").path.rstrip("/")
        app = create_app(store, base=base, arrive=arrive, onward=onward)
        AppServer(app, sock).run_until_told(ready)


def write_links(store: StudyStore, path: Path, address: str, *, anew: bool = False) -> None:
    """Write the raters' links where there is no such file, or `anew`; raises `ResourceError`."""
    tokens = store.issue_links()
    if anew or not path.is_file():
        with writing(path, ResourceError), whole_file(path) as stream:
            Path(stream.name).chmod(0o600)
            stream.write(b"rater,link\n")
            stream.writelines(f"{name},{address}/s/{it}\n".encode() for name, it in tokens.items())
