from __future__ import annotations

from pathlib import Path

import pytest

from installed import install
from palate.contexts import build_context
from palate.errors import SpecError
from palate.session import default_session
from palate.specs import load, registered

PLUGIN = """
from palate.records import Part, Shown


class Horoscope:
    oracle = False
    empty = False

    def __init__(self, spec, session, settings):
        spec.only({"sign"})
        self.spec = str(spec)
        self.sign = spec.options.get("sign", "Leo")

    def shown(self, pair, user, others):
        part = Part(kind="persona", text=f"{user.id} is a {self.sign}.")
        return Shown(parts=(part,), own_words=4)
"""


def test_palates_own_are_registered_and_load() -> None:
    assert {"none", "profile", "stranger", "rubric"} <= set(registered("palate.contexts"))
    assert {"tasting", "personalized-rewardbench"} <= set(registered("palate.benchmarks"))
    assert list(registered("palate.contexts")) == sorted(registered("palate.contexts"))
    for group in ("palate.contexts", "palate.benchmarks", "palate.scorers"):
        for name in registered(group):
            assert load(group, name) is not None


def test_an_installed_package_needs_no_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SpecError):
        build_context("horoscope", default_session())
    install(tmp_path, "stars", "[palate.contexts]\nhoroscope = stars_plugin:Horoscope\n", PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    assert build_context("horoscope?sign=Aries", default_session()).spec == "horoscope?sign=Aries"
    with pytest.raises(SpecError, match="did you mean horoscope"):
        build_context("horoscop", default_session())


def test_two_packages_that_claim_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "rude", "[palate.contexts]\nprofile = rude_plugin:Horoscope\n", PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SpecError) as caught:
        build_context("profile:5", default_session())
    for claim in ("'profile'", "rude_plugin:Horoscope", "palate.contexts.recorded:Profile"):
        assert claim in str(caught.value)


def test_an_unknown_name_gets_its_near_misses() -> None:
    with pytest.raises(SpecError, match=r"unknown context 'profil'; did you mean profile\?"):
        load("palate.contexts", "profil")
    with pytest.raises(SpecError, match="unknown scorer 'likelyhood'; did you mean likelihood"):
        load("palate.scorers", "likelyhood")


def test_where_nothing_is_near_all_are_named() -> None:
    with pytest.raises(SpecError, match=r"unknown context 'zzz'; known: .*none, .*profile"):
        load("palate.contexts", "zzz")
