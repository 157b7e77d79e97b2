"""From ids in a request to what is scored: rows and users of the data."""

from __future__ import annotations

from palate.data.leaks import forbidden_texts, leaks
from palate.records import Message, QuestionView, User
from palate.rewards import Reward, RewardRequest
from palate.serve.batches import RenderedText
from palate.serve.bodies import refusal

ONLY_CLASSIFIERS = (
    "names no row, and only a `classifier` in this process scores a conversation as it stands"
)


class Resolver:
    """Rows and users that a reward's data knows."""

    def __init__(self, reward: Reward) -> None:
        self.reward = reward

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
        if name not in self.reward.users:
            raise refusal(field, f"no user {name!r} in the data", 404)
        user = self.reward.users[name]
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
