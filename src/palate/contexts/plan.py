"""An expectation of the user's, inferred by a language model from their profile."""

from __future__ import annotations

from palate.contexts.generated import GeneratedContext
from palate.contexts.options import DRAWS
from palate.contexts.profile import Profile
from palate.contexts.text_cache import GeneratedText, TextSource
from palate.contexts.writers import MAX_TOKENS
from palate.prompts import as_text, parse_plan, plan_prompt, plan_text
from palate.records import QuestionView, Settings, Shown, UserPool
from palate.records.slates import PartKind
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec


class PlanContext(GeneratedContext):
    """Shows what a language model expects the user to want.

    `plan:LM?k=10&order=bm25&of=stranger&draws=N`, aspects that the user expects of an answer.

    The model reads what `profile:k` shows and the question, and writes a bullet list; nothing is
    shown where it writes none (LaMP-QA's planner, arXiv 2506.00137). `LM` is a causal model, such
    as one of `palate train planner`, or `api:MODEL?base_url=…`.
    """

    kind: PartKind = "plan"
    needs = ("posts",)
    default = {"k": 10, "order": "bm25", "of": "self", "draws": DRAWS, "max_tokens": MAX_TOKENS}

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        super().__init__(spec, session, settings, plan_prompt, "plan.jinja", "about.jinja")
        options = {"order": spec.options.get("order", "bm25"), "of": self.of}
        posts = Spec(kind="profile", reference=str(self.k), options=options)
        self._profile = Profile(posts, session, settings)
        self.fingerprint = digest(self.texts.fingerprint, self._profile.fingerprint)

    def inner(self, pool: UserPool) -> Profile:
        """Return the profile that is read."""
        del pool
        return self._profile

    def source(self, view: QuestionView, shown: Shown) -> TextSource:
        """Read question and posts."""
        return TextSource(as_text(view.messages), shown.parts)

    def read(self, text: GeneratedText) -> str:
        """Return the aspects as a bullet list; empty where there is none to name."""
        return plan_text(parse_plan(text.text, cut_off=text.cut_off))
