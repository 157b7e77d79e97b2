"""Files of a data set on the hub, at a resolved commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from palate.errors import HubError, UsageError, first_line


class Download(NamedTuple):
    """Local paths of the files asked for, and the commit they are of."""

    paths: tuple[Path, ...]
    commit: str


def download(repository: str, files: Sequence[str], revision: str = "main") -> Download:
    """Fetch files of a data-set repository; the revision is resolved to a commit once, first.

    Raises `HubError` where the hub cannot be reached or lacks the files.
    """
    try:
        from huggingface_hub import HfApi, hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise UsageError(f"{repository}: the hub needs pip install 'palate[hub]'") from error
    try:
        commit = HfApi().dataset_info(repository, revision=revision).sha or revision
        paths = tuple(
            Path(hf_hub_download(repository, name, repo_type="dataset", revision=commit))
            for name in files
        )
    # Its bases are OSError and the base error of the HTTP library that the hub's client uses;
    # ValueError: what answered speaks no JSON, or the name or revision is malformed.
    except (*HfHubHTTPError.__bases__, ValueError) as error:
        problem = f"data set {repository}@{revision}: {first_line(error)}"
        raise HubError(f"{problem}; without a network use --source DIR") from error
    return Download(paths, commit)
