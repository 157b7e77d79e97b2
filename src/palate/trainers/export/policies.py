"""The policy that a trainer is to train: what it is called there, and what its tokenizer says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palate.answers.policies import TEMPERATURE, TOP_P, read_sampling
from palate.engines import ChatTemplate
from palate.engines.text.chat_template import HELLO
from palate.engines.text.reader import window_of
from palate.errors import UsageError
from palate.marks import prompt_end
from palate.models import load_part
from palate.models.resolve import cached_snapshot
from palate.records import Message, Settings
from palate.session import Session
from palate.specs import Reference, Spec

RESPONSE_TOKENS, PROMPT_TOKENS = 512, 8192
"""Of the paper's PPO runs (arXiv 2604.07343)."""
OPTIONS = ("max_tokens", "temperature", "top_p")
EXAMPLE = "ORG/MODEL?max_tokens=256"


@dataclass(frozen=True)
class ExportedPolicy:
    """What trainers load and sample; `template` is None where nothing of the model lies here."""

    spec: str
    model: str
    max_tokens: int = RESPONSE_TOKENS
    temperature: float = TEMPERATURE
    top_p: float = TOP_P
    template: ChatTemplate | None = None
    window: int | None = None
    """Tokens that the model reads, where it says so."""

    def safe(self, text: str) -> str:
        """Break what would open or close a turn of the policy's template."""
        return text if self.template is None else self.template.safe(text)

    @property
    def end_of_turn(self) -> str | None:
        """What the template writes after a response; None where it is not known."""
        if self.template is None:
            return None
        _, _, end = self.template.closed_text(HELLO, "Hello!").rpartition("Hello!")
        return end.strip() or None

    @property
    def open_thought(self) -> str:
        """The mark of the thought that prompts end within; "" for none, or where it is unknown."""
        template = self.template
        return prompt_end(template.text(HELLO, generation=True)).mark if template else ""

    def prompt_tokens(self, prompts: Sequence[Sequence[Message]]) -> int:
        """Return how many tokens the longest prompt has; the paper's limit where that is unknown.

        Raises `UsageError` where a prompt leaves no room for an answer.
        """
        if self.template is None:
            return PROMPT_TOKENS
        longest = max(len(self.template.prompt(tuple(prompt))) for prompt in prompts)
        if self.window is not None and longest + self.max_tokens > self.window:
            raise UsageError(
                f"{self.spec}: a prompt of {longest} tokens leaves no room for max_tokens="
                f"{self.max_tokens} in a window of {self.window}; show less, or ask for less"
            )
        return longest


def read_policy(text: str, session: Session, settings: Settings | None = None) -> ExportedPolicy:
    """Return the policy of `REFERENCE?max_tokens=&temperature=&top_p=`.

    A model of the hub is looked at where it was downloaded before.

    Raises:
        UsageError: for what no trainer can load, or a policy without a chat template.

    Example:
        >>> read_policy("api:gpt", Session())
        Traceback (most recent call last):
        palate.errors.UsageError: api:gpt: an endpoint has no weights to train
    """
    spec = Spec.parse(f"policy:{text}")
    spec.only(OPTIONS)
    reference = Reference.parse(spec.need_reference(EXAMPLE))
    if reference.place == "api":
        raise UsageError(f"{text}: an endpoint has no weights to train")
    if reference.revision is not None:
        raise UsageError(
            f"{text}: not every trainer can load a revision; download it, and name the folder"
        )
    how = read_sampling(spec, max_tokens=RESPONSE_TOKENS)
    here = reference.place != "hub"
    model = str(session.folder(reference).path) if here else reference.name
    folder = Path(model) if here else cached_snapshot(reference)
    template = window = None
    if folder is not None:
        tokenizer = load_part("AutoTokenizer", folder, text)
        template = ChatTemplate(tokenizer, settings)
        config = load_part("AutoConfig", folder, text)
        window = window_of(config.get_text_config(), tokenizer)
    return ExportedPolicy(text, model, *how[:3], template, window)
