"""Files of a data set on the hub, at a resolved commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from palate.errors import HubError, UsageError, first_line


def download(
    repository: str,
    choose: Callable[[Sequence[str]], Sequence[str]],
    revision: str = "main",
    advice: str = "without a network use --source DIR",
) -> tuple[tuple[Path, ...], str]:
    """Fetch the files of a data-set repository that `choose` takes of all its names.

    Returns their paths and the commit they are of. The revision is resolved to that commit once,
    first. Raises `HubError` where the hub cannot be reached or lacks the files.
    """
    what = f"data set {repository}@{revision}"
    missing = f"{repository}: the hub needs pip install 'palate[hub]'"
    with hub(what, advice, missing) as client:
        info = client.HfApi().dataset_info(repository, revision=revision)
        commit = info.sha or revision
        names = [sibling.rfilename for sibling in info.siblings or ()]
        fetched = (
            client.hf_hub_download(repository, name, repo_type="dataset", revision=commit)
            for name in choose(names)
        )
        return tuple(map(Path, fetched)), commit


@contextmanager
def hub(what: str, advice: str, missing: str) -> Iterator[Any]:
    """Give the module `huggingface_hub`; what it raises becomes a `HubError` with this advice.

    Raises `UsageError`, saying what is missing, where it is not installed.
    """
    try:
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise UsageError(missing) from error
    # Its bases are OSError and the base error of the HTTP library that the hub's client uses;
    # ValueError: what answered speaks no JSON, or the name or revision is malformed.
    bases = (base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception))
    expected: tuple[type[Exception], ...] = (*bases, ValueError)
    try:
        yield huggingface_hub
    except expected as error:
        raise HubError(f"{what}: {first_line(error)}; {advice}") from error
