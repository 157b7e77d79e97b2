"""guidance(scorer, model, tokenizer, questions) → a logits processor for `model.generate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from jinja2 import TemplateError
from pydantic import ValidationError

from palate.contexts import build_context
from palate.errors import UsageError, first_line
from palate.evaluation import HasStates, refuse, spec_of
from palate.guidance import PRESETS, refuse_other_tokens
from palate.guidance.guides import CallersModel
from palate.guidance.methods import ByToken, build_methods
from palate.models import import_transformers
from palate.records import (
    Context,
    Judge,
    Message,
    QuestionView,
    Scorer,
    Settings,
    Slate,
    User,
    UserPool,
    info_of,
    user_key,
)
from palate.scorers import build_scorer
from palate.session import Session, default_session

if TYPE_CHECKING:
    from palate.guidance.processor import GuidanceProcessor

SAME_TOKENS = (
    "a guide needs the policy's tokens: name a model of the same tokenizer, and instead of adding "
    "a pad token set tokenizer.pad_token = tokenizer.eos_token"
)
Conversation = str | Sequence[Mapping[str, str]]


def guidance(
    scorer: str | Scorer | Judge,
    model: Any,
    tokenizer: Any,
    questions: Conversation | Sequence[Conversation],
    *,
    users: User | Sequence[User] | None = None,
    context: str | Context = "none",
    method: str = "genarm",
    weight: float | None = None,
    max_new_tokens: int = 512,
    prompts: Any = None,
    session: Session | None = None,
    settings: Settings | None = None,
) -> GuidanceProcessor:
    """Return a logits processor that lets a scorer guide `model.generate`, token by token.

    A question is a text or a conversation of {role, content}; the guide reads it below what
    `context` shows of its user. `prompts` is what `generate` is given (ids, or what a tokenizer
    returns); without it, the questions in the tokenizer's chat template. `max_new_tokens` is that
    of `generate`: what is shown is cut for it. Methods are those of fusion, and `args?k=10` for
    candidates.

    Raises `UsageError` for a scorer that cannot guide this model, and for what does not match.
    """
    import_transformers()
    from palate.guidance.processor import GuidanceProcessor

    session, settings = session or default_session(), settings or Settings()
    chosen = _method(method, weight)
    built = build_scorer(scorer, session, settings) if isinstance(scorer, str) else scorer
    spec = spec_of(built, scorer if isinstance(scorer, str) else None)
    built_context = build_context(context, session, settings)
    conversations = conversations_of(questions)
    people = _one_each(users, len(conversations))
    built = _adapted(built, people, spec)
    info = info_of(built, spec)
    refuse(info, built_context, spec)
    typed = context if isinstance(context, str) else built_context.spec
    slates = [
        _slate(conversation, built_context, user, typed, keyed=info.needs_user)
        for conversation, user in zip(conversations, people, strict=True)
    ]
    policy = CallersModel(model, tokenizer)
    guide = chosen.guide(built, spec)
    refuse_other_tokens(policy, guide, spec, SAME_TOKENS)
    ids = template_ids(tokenizer, conversations) if prompts is None else given_ids(prompts)
    if len(ids) != len(slates):
        raise UsageError(f"{len(slates)} questions and {len(ids)} prompts: give one of each")
    if not all(ids):
        raise UsageError(f"prompt {[bool(row) for row in ids].index(False)} is empty")
    if max_new_tokens < 1:
        raise UsageError(f"max_new_tokens={max_new_tokens}: expected 1 or more")
    with guide.in_place():  # learns users' states, which generate, without gradients, could not
        readings = [guide.read(slate, max_new_tokens) for slate in slates]
    return GuidanceProcessor(chosen.law_with(guide), policy, guide, ids, readings, max_new_tokens)


def _method(method: str, weight: float | None) -> ByToken:
    (chosen,) = build_methods(method)
    if not isinstance(chosen, ByToken):
        raise UsageError(
            f"method {method!r} writes segments, and generate draws token by token; take a fusion "
            f"({', '.join(PRESETS)}) or args, or palate decode"
        )
    if weight is None:
        return chosen
    (weighted,) = build_methods(method, (weight,))
    assert isinstance(weighted, ByToken)
    return weighted


def _one_each(users: User | Sequence[User] | None, n: int) -> list[User | None]:
    if users is None or isinstance(users, User):
        return [users] * n
    if len(users) != n:
        raise UsageError(f"{n} questions and {len(users)} users: give one of each, or one user")
    return list(users)


def _adapted(scorer: Scorer | Judge, people: Sequence[User | None], spec: str) -> Scorer | Judge:
    if not isinstance(scorer, HasStates):
        return scorer
    if scorer.state == "stranger":
        raise UsageError(f"{spec}: nobody is there to be a stranger; take state own or prior")
    choices = {user.id: user.choices for user in people if user is not None and user.choices}
    adapted: Scorer | Judge = scorer
    if choices:
        adapted = scorer.adapted(choices) if scorer.wants_choices else scorer.join(choices)
    elif scorer.wants_choices and scorer.state != "prior":
        raise UsageError(
            f"{spec} knows no user; give users= with their choices, or name a file that palate "
            "adapt made, as in ?users=users.safetensors"
        )
    if isinstance(adapted, HasStates) and adapted.state == "own":
        known = {*adapted.known, *getattr(adapted, "live", ())}
        for user in people:
            if user is not None and not user.choices and user_key(user.id) not in known:
                raise UsageError(
                    f"{spec}: no state of user {user.id!r}; give their choices, or take "
                    "?state=prior"
                )
    return adapted


def _slate(
    conversation: tuple[Message, ...],
    context: Context,
    user: User | None,
    typed: str,
    *,
    keyed: bool,
) -> Slate:
    slate = Slate(
        question=conversation,
        candidates=("",),
        user=user_key(user.id) if keyed and user is not None else None,
    )
    if context.empty:
        return slate
    if context.oracle:
        raise UsageError(f"context {typed} shows what explains an answer, and there is none")
    if getattr(context, "of", None) == "stranger":
        raise _no_stranger(typed)
    needs = [need for need in getattr(context, "needs", ()) if need != "aspects"]
    if user is None or (needs and not any(map(user.has, needs))):
        lacks = " or ".join(needs) or "an id"
        raise UsageError(f"context {typed}: give users= with {lacks}, one for each question")
    *turns, last = conversation
    view = QuestionView(last.content, turns=tuple(turns))
    pool = UserPool({user.id: user}).at(last.content, user.id)
    shown = context.shown(view, user, pool)
    if shown.no_stranger:
        raise _no_stranger(typed)
    return slate.replace(shown=shown.parts)


def _no_stranger(typed: str) -> UsageError:
    return UsageError(
        f"context {typed}: a call knows no third user; for the control, pass another person's "
        "palate.User as users=, under the context that shows what the user wrote or chose"
    )


def conversations_of(questions: Conversation | Sequence[Conversation]) -> list[tuple[Message, ...]]:
    """Return each question as messages; raises `UsageError` for one that asks nothing."""
    single = isinstance(questions, str) or (questions and isinstance(questions[0], Mapping))
    several = cast("Sequence[Conversation]", [questions] if single else questions)
    if not several:
        raise UsageError("no questions: give those whose answers generate is to write")
    batch = []
    for k, question in enumerate(several):
        turns = [{"role": "user", "content": question}] if isinstance(question, str) else question
        try:
            messages = tuple(Message.model_validate(turn) for turn in turns)
        except ValidationError as error:
            raise UsageError(
                f"question {k}: expected a text, or messages of a role (system, user, assistant) "
                f"and a text ({first_line(error)})"
            ) from error
        if not messages or messages[-1].role != "user" or not messages[-1].content.strip():
            raise UsageError(f"question {k}: expected a last message of the user, with a text")
        batch.append(messages)
    return batch


def template_ids(tokenizer: Any, conversations: Sequence[tuple[Message, ...]]) -> list[list[int]]:
    """Return the ids of conversations in a tokenizer's own chat template."""
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError(
            f"{tokenizer.name_or_path}: the tokenizer has no chat template; give prompts= what "
            "generate is given"
        )
    turns = [[message.model_dump() for message in messages] for messages in conversations]
    try:  # as the caller's own call does, whatever day it is
        encoded = tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, tokenize=True, return_dict=True
        )
    except (TemplateError, ValueError) as error:
        raise UsageError(
            f"{tokenizer.name_or_path}: its chat template writes no prompt ({first_line(error)}); "
            "give prompts= what generate is given"
        ) from error
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def given_ids(prompts: Any) -> list[list[int]]:
    """Return the ids of a tokenizer's output, a tensor or lists, without padding on the left."""
    masks = None
    if isinstance(prompts, Mapping):
        masks = prompts.get("attention_mask")
        prompts = prompts["input_ids"]
    rows = _lists(prompts)
    if masks is None:
        return rows
    ids = []
    for k, (row, mask) in enumerate(zip(rows, _lists(masks), strict=True)):
        if mask != sorted(mask):
            raise UsageError(f"prompt {k} is not padded on the left; set tokenizer.padding_side")
        ids.append([token for token, is_read in zip(row, mask, strict=True) if is_read])
    return ids


def _lists(rows: Any) -> list[list[int]]:
    rows = rows.tolist() if hasattr(rows, "tolist") else list(rows)
    if rows and isinstance(rows[0], int):  # a tokenizer's output of a single text
        return [rows]
    return [list(row) for row in rows]
