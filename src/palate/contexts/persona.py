"""A description of the user, written by a language model from what they chose or wrote."""

from __future__ import annotations

from palate.contexts.examples import Examples
from palate.contexts.generated import GeneratedContext
from palate.contexts.options import DRAWS
from palate.contexts.profile import Profile
from palate.contexts.text_cache import GeneratedText, TextSource
from palate.contexts.writers import MAX_TOKENS, Messages, Parts
from palate.prompts import parse_persona, persona_prompt
from palate.records import QuestionView, Settings, Shown, UserPool
from palate.records.slates import PartKind
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec


class Persona(GeneratedContext):
    """Shows what a language model writes about the user.

    `persona:LM?from=choices|posts&k=20&of=stranger&draws=N`, a text about the user.

    One per user, written from the k latest past choices, or from the k latest posts of the row's
    profile; without `from`, from choices where those of any user of the subset are known. The
    report says which. `LM` is a causal model or `api:MODEL?base_url=…`.
    """

    kind: PartKind = "persona"
    default = {"k": 20, "of": "self", "draws": DRAWS, "from": "either", "max_tokens": MAX_TOKENS}

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        self.reads = spec.choice("from", ("choices", "posts", "either"), "either")
        super().__init__(spec, session, settings, _prompt, "persona.jinja", "example.jinja")
        k, of = str(self.k), {"of": self.of}
        self._choices = Examples(Spec(kind="examples", reference=k, options=of), session, settings)
        latest = {"order": "recent", **of}
        self._posts = Profile(Spec(kind="profile", reference=k, options=latest), session, settings)
        self.fingerprint = digest(
            self.texts.fingerprint, self._choices.fingerprint, self._posts.fingerprint
        )
        self.needs = ("choices", "posts") if self.reads == "either" else (self.reads,)
        self._read_from: set[str] = set()

    def inner(self, pool: UserPool) -> Examples | Profile:
        """Return the past choices or the posts that are read."""
        source = self.reads
        if source == "either":
            source = "choices" if pool.have_choices else "posts"
        self._read_from.add(source)
        return self._choices if source == "choices" else self._posts

    def source(self, view: QuestionView, shown: Shown) -> TextSource:
        """Read the parts alone: a persona knows no question."""
        del view
        return TextSource("", shown.parts)

    def read(self, text: GeneratedText) -> str:
        """Return the description."""
        return parse_persona(text.text, cut_off=text.cut_off)

    def notes(self) -> tuple[str, ...]:
        """Say what personas were written from."""
        named = {"choices": "past choices", "posts": "posts"}
        read = " and ".join(named[source] for source in sorted(self._read_from))
        return (*((f"{self.spec}: written from {read}",) if read else ()), *super().notes())


def _prompt(question: str, parts: Parts) -> Messages:
    del question
    return persona_prompt(parts)
