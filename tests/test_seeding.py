from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.seeding import canonical_json, digest, rng, shuffled, unit

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def test_digests_are_these_for_ever() -> None:
    # Written out by hand from the definition, so that a change of the definition is seen.
    assert digest("user", "turker0047") == hashlib.sha256(b'["user","turker0047"]').hexdigest()
    assert digest("user", "turker0047").startswith("a0431eb0")
    assert digest({"b": 1.5, "a": None}, "é") == (
        "32353e57bc516e4ff725de76f3c02a1ffd867f07bc3400a9e338c999cf101bc8"
    )


def test_draws_are_these_for_ever() -> None:
    assert shuffled(range(5), "x", 0) == [1, 3, 4, 2, 0]
    assert rng("x", 0).integers(1000, size=3).tolist() == [440, 461, 242]


@given(st.dictionaries(st.text(), JSON, max_size=4), st.randoms())
def test_the_order_of_keys_does_not_matter(value: dict[str, object], random: object) -> None:
    keys = list(value)
    random.shuffle(keys)  # type: ignore[attr-defined]
    assert digest({key: value[key] for key in keys}) == digest(value)


def test_parts_do_not_run_together() -> None:
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest(["ab", "c"])}) == 4
    assert digest("1") != digest(1)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_canonical_json_refuses_what_json_lacks(bad: float) -> None:
    for value in (bad, [bad], {"a": {"b": bad}}):
        with pytest.raises(ValueError, match="not JSON compliant"):
            canonical_json(value)
        with pytest.raises(ValueError, match="not JSON compliant"):
            digest(value)


def test_a_lone_surrogate_has_a_digest() -> None:
    assert digest("\ud800") != digest("\udc00")


@given(JSON)
def test_what_is_drawn_depends_on_the_parts_alone(part: object) -> None:
    np.random.seed(0)
    first = (unit(part), shuffled("abcdefgh", part), rng(part).random())
    np.random.seed(1)
    assert first == (unit(part), shuffled("abcdefgh", part), rng(part).random())
    assert 0 <= first[0] < 1
    assert sorted(first[1]) == list("abcdefgh")


def test_draws_for_different_things_are_uniform() -> None:
    draws = [unit("draw", k) for k in range(4000)]
    counts = np.histogram(draws, bins=10, range=(0, 1))[0]
    assert np.abs(counts - 400).max() < 4.5 * np.sqrt(400 * 0.9)
