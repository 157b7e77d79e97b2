"""Users in the call by what is known of them: traits and posts are shown as a row's are."""

from __future__ import annotations

from typing import Any

import pytest

import palate
from palate.errors import UsageError
from palate.records import Choice, Post, User
from palate.rewards.requests import user_of

QUESTION = "What shall I drink?"


def shown_words(question: str, response: str, user: tuple[str, ...]) -> float:
    return float(sum(text in " ".join(user) for text in response.split()))


def read(context: str, known: Any, **more: Any) -> list[str]:
    """Return what the scorer is shown of a user in the call."""
    seen: list[tuple[str, ...]] = []

    def watching(question: str, response: str, user: tuple[str, ...]) -> float:
        seen.append(user)
        return 1.0

    palate.reward(watching, context)(QUESTION, "Tea.", known, **more)
    return [*seen[0]]


def test_traits_and_posts_of_a_dict_are_read() -> None:
    known = {
        "traits": {"region": "North", "age": "30"},
        "posts": ["I only ever drink tea.", "Milk?"],
    }
    assert read("traits", known) == ["age: 30", "region: North"]
    assert read("traits:region", known) == ["region: North"]
    assert read("traits:region+profile:1", known) == ["region: North", "I only ever drink tea."]
    reward = palate.reward(shown_words, "traits:region+profile:2")
    values = [reward(QUESTION, text, known).value for text in ("North tea.", "South tea.", "Beer")]
    assert values == [2.0, 1.0, 0.0]


def test_it_is_the_reward_of_the_user_who_is_all_this() -> None:
    known = {"id": "ann", "traits": {"region": "North"},
             "posts": [{"text": "Old.", "category": "tea", "date": "2020-01-01"},
                       {"text": "New.", "date": "2021-01-01"}],
             "choices": [{"question": "Tea?", "chosen": "Yes.", "rejected": "No."}]}  # fmt: skip
    ann = user_of(known)
    assert (ann.id, dict(ann.traits), [post.text for post in ann.posts]) == (
        "ann", {"region": "North"}, ["Old.", "New."],
    )  # fmt: skip
    assert ann.choices == (Choice(question="Tea?", chosen="Yes.", rejected="No."),)
    assert user_of(ann) is ann
    for context in ("traits+profile:2?order=recent", "examples:1"):
        assert read(context, known) == read(context, ann)


def test_the_rating_to_expect_takes_them_too() -> None:
    rated = [palate.RatedResponse(question="Drink?", response=text, rating=stars)
             for text, stars in [("North", 5), ("South", 1)]]  # fmt: skip
    reward = palate.reward(shown_words, "traits")
    known = {"traits": {"region": "North"}}
    assert reward.alignment("Drink?", "North tea", known, rated).value == 5.0
    assert reward.alignment("Drink?", "Beer", known, rated).value == 1.0


def test_one_post_need_be_no_list() -> None:
    assert [post.text for post in user_of({"posts": "I drink tea."}).posts] == ["I drink tea."]
    assert [post.text for post in user_of({"posts": {"text": "Tea."}}).posts] == ["Tea."]


@pytest.mark.parametrize(
    ("known", "problem"),
    [
        ({"trait": {"age": "3"}}, "^user: trait: extra inputs are not permitted$"),
        ({"traits": ["age"]}, "^user: traits: input should be a valid (mapping|dictionary)$"),
        ({"traits": {"age": 3}}, r"^user: traits\.age: input should be a valid string$"),
        ({"posts": [7]}, "^user: .* 'int'|^user: 'int' "),
        ({"posts": [{"txt": "Tea."}]}, r"^user: posts\.0\.text: field required$"),
        ({"choices": [{"question": "Tea?"}]}, r"^user: choices\.0\.chosen: field required$"),
        ({"id": ["ann"], "posts": []}, "^user: id: input should be a valid string$"),
        ({"posts": ["I drink tea."]}, "has no traits, so there is no context traits$"),
        ({}, "has no traits, so there is no context traits$"),
    ],
)
def test_what_cannot_be_read_of_them_is_refused(known: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        palate.reward("longest", "traits")(QUESTION, "Tea.", known)
    assert "\n" not in str(caught.value)


def test_users_in_the_call_may_be_shown_strangers_traits() -> None:
    data = palate.Dataset.from_rows("made", [
        {"id": user, "user_id": user, "question": f"Tea for {user}?", "chosen": "Yes.",
         "rejected": "No.", "traits": {"region": region}}
        for user, region in (("bob", "South"), ("cy", "South"))
    ])  # fmt: skip
    reward = palate.reward(shown_words, "traits?of=stranger", benchmark=data)
    ann = User(id="ann", traits={"region": "North"}, posts=(Post(id="1", text="Hm."),))
    values = [reward(QUESTION, text, ann).value for text in ("North", "South")]
    assert values == [0.0, 1.0]
