"""Who arrives under an odd id, or under none: one place a person, and none shared."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_studies import WORDS, page_study, served

from palate.study.page_rendering import PageRenderer
from palate.study.store import rater_named

NOBODY = [
    *("", " ", "\t", "\u00a0", "-", "???", "{{%PROLIFIC_PID%}}", "{%PROLIFIC_PID%}", "{ID}"),
    *("${workerId}", "${e://Field/PROLIFIC_PID}", "%PROLIFIC_PID%", "%%ID%%", "$PID"),
    *("undefined", "null", "None", "NaN", "N/A", "test", "TEST ", "[object Object]", "(none)"),
    *("PROLIFIC_PID", "[PROLIFIC_PID]", "<prolific-pid>", "ASSIGNMENT_ID_NOT_AVAILABLE"),
]
"""What platforms leave in or fill in where they know nobody."""
PEOPLE = [
    *("5f3a9c0e1b2d4a0017c3e8f1", "A1B2C3D4E5F6G7", "a1b2c3d4e5f6g7", "007", "7", "7.0", "0"),
    *("ann@example.org", "ann+1@example.org", "O'Brien", "Zo\u00eb", "Zoe", "山田 太郎", "Ωμέγα"),
    *("Null Ann", "nullify", "testa", "Undefined-7", "none2", "id 1", "a/b", "a?b&c=d", 'x">y'),
    *("r01", "r02", "#7", "~ann", "(ann)", "[7]", "x" * 200),
]
"""Odd ids, each of somebody else."""
AGAIN = {" 007 ": "007", "Zoe\u0308": "Zo\u00eb", "山田\u3000太郎": "山田 太郎", "#7\t": "#7"}
"""The same id with white space or marks written otherwise."""


def test_thirty_odd_ids_are_thirty_places_and_none_is_shared(tmp_path: Path) -> None:
    assert len(PEOPLE) == len(set(PEOPLE)) == 30
    study = page_study(tmp_path / "study", raters=30)
    with served(study, links=False, arrive="PROLIFIC_PID") as pages:
        links = {}
        for name in PEOPLE:
            html = pages.client.get("/", params={"PROLIFIC_PID": name})
            assert html.status_code == 200, name
            links[name] = pages.post("/", {"arrival": name})
        assert len(set(links.values())) == 30
        for name, same in {**dict(zip(PEOPLE, PEOPLE, strict=True)), **AGAIN}.items():
            assert pages.post("/", {"arrival": name}) == links[same], name
        # Who is named at the terminal is who arrived so.
        with pages.store.database.transaction() as db:
            raters = {rater_named(db, name) for name in PEOPLE if name[0] != "r"}
            assert len(raters) == 28 and None not in raters
            for name, same in AGAIN.items():
                assert rater_named(db, name) == rater_named(db, same)


@pytest.mark.parametrize("name", NOBODY)
def test_who_comes_under_nobodys_id_gets_a_page_that_says_so(tmp_path: Path, name: str) -> None:
    study = page_study(tmp_path / "study", raters=2)
    with served(study, links=False, arrive="PROLIFIC_PID") as pages:
        for reply in (
            pages.client.get("/", params={"PROLIFIC_PID": name}),
            pages.client.post("/", data={"arrival": name}),
        ):
            assert (reply.status_code, WORDS["unnamed_title"] in reply.text) == (400, True)
            assert WORDS["unnamed"] in reply.text and "<form" not in reply.text
        with pages.store.database.transaction() as db:
            assert db.execute("SELECT count(*) FROM raters").fetchone() == (0,)


def test_an_address_with_two_ids_is_nobodys(tmp_path: Path) -> None:
    study = page_study(tmp_path / "study", raters=2)
    with served(study, links=False, arrive="ID") as pages:
        # A platform that appends the id to a link that holds a place for it.
        twice = pages.client.get("/?ID=%7B%7B%25ID%25%7D%7D&ID=ann")
        assert twice.status_code == pages.client.get("/?ID=ann&ID=bob").status_code == 400
        assert pages.client.get("/?ID=ann&ID=ann").status_code == 200
        assert pages.client.get("/").status_code == pages.client.post("/").status_code == 404


def test_a_plan_that_is_older_than_the_words_shows_palates_own(tmp_path: Path) -> None:
    plan = page_study(tmp_path / "study").plan
    words = {name: text for name, text in WORDS.items() if not name.startswith("unnamed")}
    older = plan.model_copy(update={"texts": {**words, "lost_title": "Verloren"}})
    page = PageRenderer(older).page
    assert WORDS["unnamed"] in page("note.html", name="unnamed").body.decode()
    assert "Verloren" in page("note.html", name="lost").body.decode()
