from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import combinations

import pytest

from palate.benchmarks import load_benchmark
from palate.records import Post, PreferencePair

PAIRS = load_benchmark("tasting")
COUPLES = [(PAIRS.pairs[i], PAIRS.pairs[j]) for i, j in PAIRS.couples]
USERS: dict[str, list[PreferencePair]] = defaultdict(list)
for _pair in PAIRS.pairs:
    USERS[_pair.user_id].append(_pair)
POSTS: dict[str, Post] = {post.id: post for pair in PAIRS.pairs for post in pair.profile}
RUN = 8


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def length(text: str) -> int:
    return len(text.split())


def sequences(text: str) -> set[tuple[str, ...]]:
    said = words(text)
    return {tuple(said[k : k + RUN]) for k in range(len(said) - RUN + 1)}


def shared(texts: dict[str, str]) -> list[tuple[str, str]]:
    held = {name: sequences(text) for name, text in texts.items()}
    return [(a, b) for a, b in combinations(held, 2) if held[a] & held[b]]


def test_48_couples_of_32_users_in_three_subsets() -> None:
    assert (len(PAIRS.pairs), len(COUPLES), len(USERS), PAIRS.mirrored) == (96, 48, 32, True)
    members = {subset: {p.user_id for p in PAIRS.pairs if p.subset == subset}
               for subset in PAIRS.subsets}  # fmt: skip
    assert {subset: len(who) for subset, who in members.items()} == {
        "Art_and_Entertainment": 10,
        "Lifestyle_and_Personal_Development": 10,
        "Society_and_Culture": 12,
    }
    assert sum(len(who) for who in members.values()) == 32


def test_every_user_meets_three_others_of_their_subset() -> None:
    partners: dict[str, list[str]] = defaultdict(list)
    for one, other in COUPLES:
        assert one.subset == other.subset
        partners[one.user_id].append(other.user_id)
        partners[other.user_id].append(one.user_id)
    assert {user: len(who) for user, who in partners.items()} == dict.fromkeys(USERS, 3)
    assert all(len(set(who)) == 3 and user not in who for user, who in partners.items())


def test_the_mirror_law_holds_to_the_letter() -> None:
    for one, other in COUPLES:
        assert one.user_id != other.user_id
        assert one.text == other.text
        assert one.category == other.category
        assert (one.chosen, one.rejected) == (other.rejected, other.chosen)
        assert (one.mirror_of, other.mirror_of) == (other.id, one.id)


def test_every_couple_has_a_question_of_its_own() -> None:
    assert len({one.text for one, _ in COUPLES}) == 48
    assert len({pair.chosen for pair in PAIRS.pairs}) == 96


@pytest.mark.parametrize("user", sorted(USERS))
def test_a_user_wrote_eight_posts(user: str) -> None:
    profiles = {pair.profile for pair in USERS[user]}
    assert len(profiles) == 1
    (profile,) = profiles
    assert len(profile) == len({post.id for post in profile}) == 8
    assert all(post.category and post.date for post in profile)
    assert [post.date for post in profile] == sorted(post.date or "" for post in profile)
    lengths = [length(post.text) for post in profile]
    assert min(lengths) >= 30
    assert max(lengths) <= 70


def test_posts_belong_to_one_user() -> None:
    assert len(POSTS) == 256
    owners = Counter(post.id for rows in USERS.values() for post in rows[0].profile)
    assert set(owners.values()) == {1}


@pytest.mark.parametrize("pair", PAIRS.pairs, ids=lambda pair: pair.id)
def test_the_gold_of_a_pair(pair: PreferencePair) -> None:
    assert pair.gold.narrative is not None
    assert 60 <= length(pair.gold.narrative) <= 120
    assert 3 <= len(pair.gold.aspects) <= 5
    sources = [pair.gold.narrative, *(post.text for post in pair.profile)]
    for aspect in pair.gold.aspects:
        assert aspect.aspect
        assert aspect.reason
        assert aspect.evidence
        assert any(aspect.evidence in source for source in sources)
    assert len({aspect.aspect for aspect in pair.gold.aspects}) == len(pair.gold.aspects)


def test_responses_are_of_a_length() -> None:
    for one, _ in COUPLES:
        ours, theirs = length(one.chosen), length(one.rejected)
        assert min(ours, theirs) >= 70
        assert max(ours, theirs) <= 100
        assert abs(ours - theirs) <= 12


def test_no_two_posts_share_eight_words_in_a_row() -> None:
    assert shared({name: post.text for name, post in POSTS.items()}) == []


def test_no_two_responses_share_eight_words_in_a_row() -> None:
    assert shared({pair.id: pair.chosen for pair in PAIRS.pairs}) == []


def test_the_search_for_shared_words_finds_them() -> None:
    base = "One, two three; four five six seven EIGHT nine"
    assert shared({"a": base, "b": "x two three four five six seven eight nine"}) == [("a", "b")]
    assert shared({"a": base, "b": "x two three four five six seven eight"}) == []


def test_no_post_contains_the_question_or_a_response() -> None:
    for pair in PAIRS.pairs:
        for post in pair.profile:
            said = " ".join(words(post.text))
            for text in (pair.text, pair.chosen, pair.rejected):
                assert " ".join(words(text)) not in said


def test_no_profile_quotes_the_responses() -> None:
    for pair in PAIRS.pairs:
        own = set().union(*(sequences(post.text) for post in pair.profile))
        for text in (pair.chosen, pair.rejected):
            assert not own & sequences(text)


def test_users_are_named_opaquely_and_texts_are_plain() -> None:
    for user in USERS:
        assert re.fullmatch(r"[a-z]+-\d{2}", user)
    for pair in PAIRS.pairs:
        for text in (
            pair.text,
            pair.chosen,
            pair.gold.narrative or "",
            *(p.text for p in pair.profile),
        ):
            assert text == text.strip()
            assert "\n" not in text
            assert "  " not in text
