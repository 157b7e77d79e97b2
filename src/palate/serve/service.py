"""The service behind all formats: the queue, its refusals as answers, metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import HTTPException, Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

from palate.data import SURROGATE, forbidden_texts, leaks
from palate.errors import PalateError, first_line
from palate.records import Message, QuestionView, User
from palate.rewards import Reward, RewardRequest
from palate.serve.batching import REFUSED, Item, ItemValues, Outcome, RenderedText, RewardQueue
from palate.serve.feedback import FeedbackFile

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
ONLY_CLASSIFIERS = (
    "names no row, and only a `classifier` in this process scores a conversation as it stands"
)


@dataclass(frozen=True)
class ServeSettings:
    """What a server is told beside its reward."""

    max_waiting: int = 1024
    """Answers that may wait for the next batch."""
    key: str | None = None
    """The bearer token that requests must carry."""
    feedback: FeedbackFile | None = None
    ends: tuple[str, ...] = ()
    """What closes a turn, cut off OpenRLHF's queries."""


@dataclass(frozen=True)
class RewardService:
    """A queue, what is counted of it, its server's settings, and what its data knows."""

    queue: RewardQueue
    metrics: Metrics
    spec: str
    settings: ServeSettings

    @property
    def reward(self) -> Reward:
        """The reward; raises 503 while there is none, and once the server stops."""
        return self.queue.ready()

    async def rewards(self, items: Sequence[Item], request: Request) -> list[ItemValues]:
        """Return the rewards of items, or raise the answer that says why there are none."""
        try:
            return await self.queue.ask(items, request.receive)
        except HTTPException:
            raise
        except Exception as error:
            if type(error) in REFUSED:
                raise HTTPException(422, str(error)) from error
            # What palate raises is written for its users; another error may quote a text or a key.
            problem = first_line(error) if isinstance(error, PalateError) else type(error).__name__
            raise HTTPException(500, f"the scorer failed: {problem}") from error

    async def numbers(self, items: Sequence[Item], request: Request, field: str) -> list[float]:
        """Return one number for each item, for a format that has no place for a reason.

        Raises 422 with the reason for an answer that has none.
        """
        rewards: list[float] = []
        for k, (value,) in enumerate(await self.rewards(items, request)):
            if value.value is None:
                raise refusal(field.format(k), f"unscored: {value.reason}")
            rewards.append(value.value)
        return rewards

    def row(self, name: str, response: str, field: str) -> RewardRequest:
        """Return the request for an answer to a row; raises 404 for a row that is not there."""
        self.need_row(name, field)
        return RewardRequest(row=name, responses=(response,))

    def need_row(self, name: str, field: str) -> None:
        """Raise 404 for a row that the data does not hold."""
        if not self.reward.has_row(name):
            data = self.reward.data
            among = "no data is served" if data is None else f"{data.name} has none"
            raise refusal(field, f"no row {name!r}: {among}", 404)

    def user(self, name: str, question: str, field: str, turns: tuple[Message, ...] = ()) -> User:
        """Return a user of the data, as they may be known when this question is asked.

        A post that holds the question or an earlier turn is left out: posts are gathered over all
        rows of a user, and in one of them it may come later. Raises 404 for an unknown user.
        """
        users = self.reward.users
        if name not in users:
            raise refusal(field, f"no user {name!r} in the data", 404)
        user = users[name]
        forbidden = forbidden_texts(QuestionView(question, turns=turns))
        posts = tuple(post for post in user.posts if not leaks(post.text, forbidden))
        return user.model_copy(update={"posts": posts})

    def need_as_it_stands(self, field: str) -> None:
        """Raise 422 where the scorer does not score a conversation as it stands."""
        if not self.reward.reads_rendered:
            raise refusal(field, ONLY_CLASSIFIERS)

    def rendered(self, text: str, field: str) -> RenderedText:
        """Return a rendered conversation as it stands; raises 422 as `need_as_it_stands`."""
        self.need_as_it_stands(field)
        if not text.strip():
            raise refusal(field, "unscored: empty text")
        return RenderedText(text)


def service_of(request: Request) -> RewardService:
    """Return the service of the app that answers a request."""
    service: RewardService = request.app.state.service
    return service


class Metrics:
    """The counters of one server, in a registry of their own."""

    def __init__(self, waiting: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        shared: dict[str, Any] = {"namespace": "palate", "registry": self.registry}
        by_path, by_outcome = ["path", "status"], ["outcome"]
        self.requests = Counter("requests", "Requests by path and status.", by_path, **shared)
        self.answers = Counter("answers", "Answers by what came of them.", by_outcome, **shared)
        self.feedback = Counter("feedback", "Rows of feedback on disk.", **shared)
        self.sizes = Histogram("batch_answers", "Answers in a batch.", buckets=SIZES, **shared)
        self.seconds = Histogram("batch_seconds", "Seconds that a batch took.", **shared)
        Gauge("waiting_answers", "Answers that wait.", **shared).set_function(waiting)

    def batch(self, n: int, seconds: float, outcomes: Sequence[Outcome]) -> None:
        """Count one batch."""
        self.sizes.observe(n)
        self.seconds.observe(seconds)
        done = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
        values = [each for items in done for of_item in items for each in of_item]
        scored = sum(each.value is not None for each in values)
        self.answers.labels("scored").inc(scored)
        self.answers.labels("unscored").inc(len(values) - scored)
        self.answers.labels("failed").inc(n - len(values))

    def text(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        return generate_latest(self.registry)


def _no_ids(value: Any) -> Any:
    inner = value[0] if isinstance(value, list) and value else value
    if isinstance(inner, list) and inner:
        inner = inner[0]
    if isinstance(inner, int) and not isinstance(inner, bool):
        raise PydanticCustomError("token_ids", "expected text, got a number or token ids")
    return value


def _unicode(value: str) -> str:
    if SURROGATE.search(value):
        raise PydanticCustomError("surrogate", "holds half a surrogate pair; not Unicode text")
    return value


NoIds = BeforeValidator(_no_ids)
Text = Annotated[str, NoIds, AfterValidator(_unicode)]
AsText = BeforeValidator(lambda value: str(value) if type(value) is int else value)
Name = Annotated[str, AsText, AfterValidator(_unicode)]
"""The id of a row or a user; a whole number is the text that it is, as in the row contract."""


class ForeignBody(BaseModel):
    """A body in another server's format: fields that palate does not know are not read."""

    model_config = ConfigDict(extra="ignore")


class ExactBody(BaseModel):
    """A body in palate's own format: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str
    """`FIELD: what is wrong with it`, or a sentence."""


def refusal(field: str, problem: str, status: int = 422) -> HTTPException:
    """Return the error that refuses a field.

    >>> refusal("labels[0]", "no row 'x'", 404).detail
    "labels[0]: no row 'x'"
    """
    return HTTPException(status, f"{field}: {problem}")
