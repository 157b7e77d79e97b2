"""A small study with the words of the pages, its application, and a rater who walks through it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from fastapi.testclient import TestClient
from small_studies import RATINGS, small_study

from palate.study import ListEntry, Study, StudyItem, StudyPlan, Trait
from palate.study.database import Chooser
from palate.study.steps import create_app
from palate.study.store import StudyStore

FOLDER = files("palate.study")
DOCUMENT = tomllib.loads((FOLDER / "texts.toml").read_text(encoding="utf-8"))
WORDS: Mapping[str, str] = DOCUMENT["texts"]
TRAITS = tuple(Trait.model_validate(trait) for trait in DOCUMENT["traits"])
CONSENT = (FOLDER / "consent.md").read_text(encoding="utf-8")
RIGHT = [WORDS["practice_1_expected"], WORDS["practice_2_expected"]]
SCORES = {f"{name}_{side}": "3" for name in RATINGS for side in "ab"}
ABOUT = {f"trait-{k}": trait.options[k] for k, trait in enumerate(TRAITS)}


def page_study(folder: Path, items: Sequence[StudyItem] = (), **more: Any) -> Study:
    """Return a written study with the words that every study has by default.

    Its items are these, without gold, or those of `small_study`.
    """
    study = small_study(folder.with_name(f"{folder.name}-bare"), **more)
    fields = {**study.plan.model_dump(), "texts": WORDS, "consent": CONSENT, "traits": TRAITS}
    listed, gold = study.items, study.gold
    if items:
        listed, gold = {item.id: item for item in items}, ()
        entries = [ListEntry(item=name, swapped=n % 2 == 1) for n, name in enumerate(listed)]
        fields |= {"items": {name: item.hash for name, item in listed.items()}, "gold": ()}
        fields |= {"checks": (), "lists": [entries] * study.plan.raters}
    study = Study(folder, StudyPlan.model_validate(fields), listed, gold)
    study.write()
    return study


class Served(NamedTuple):
    """An application without a socket."""

    client: TestClient
    store: StudyStore
    study: Study
    tokens: Mapping[str, str]

    @property
    def links(self) -> list[str]:
        """The address of every rater."""
        return [f"/s/{token}" for token in self.tokens.values()]

    def begin(self, link: str, practice: int = 2) -> None:
        """Consent, answer the questionnaire, pass the practice."""
        self.post(f"{link}/consent")
        self.post(f"{link}/about", ABOUT)
        for n in range(practice):
            self.post(
                f"{link}/practice/{n + 1}",
                {"choice": RIGHT[n], **self.ratings_on(f"{link}/practice/{n + 1}")},
            )

    def post(self, path: str, data: Mapping[str, str] | None = None) -> str:
        """Post a form that is taken, and return where it leads."""
        reply = self.client.post(path, data=dict(data or {}))
        assert reply.status_code == 303, (path, reply.status_code, problems_on(reply.text))
        return str(reply.headers["Location"])

    def ratings_on(self, path: str) -> dict[str, str]:
        """Return ratings where the page asks for them."""
        return SCORES if 'name="correctness_a"' in self.client.get(path).text else {}


def problems_on(html: str) -> list[str]:
    """Return the words of the summary of errors."""
    return re.findall(r'<li><a href="#[\w-]+">([^<]*)', html)


@contextmanager
def served(
    study: Study, *, links: bool = True, choose: Chooser | None = None, **more: Any
) -> Iterator[Served]:
    """Serve a study; whatever an application raises is answered as it is to a browser."""
    with closing(StudyStore(study, choose=choose)) as store:
        tokens = store.issue_links() if links else {}
        app = create_app(store, **more)
        with TestClient(app, raise_server_exceptions=False, follow_redirects=False) as client:
            yield Served(client, store, study, tokens)
