"""Downstream files: read, refused, joined."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from palate.errors import ComparisonError, DataError, UsageError
from palate.validity import read_downstream, validity


def test_files_on_the_same_answers_are_joined(planted, tmp_path):
    runs, file = planted(4, n_rows=40)
    said = json.loads(file.read_text())
    parts = []
    for name, some in (("a", said["downstream"][:1]), ("b", said["downstream"][1:])):
        parts.append(tmp_path / f"{name}.json")
        parts[-1].write_text(json.dumps({**said, "downstream": some}))
    whole = validity(runs, read_downstream(file))
    both = [one for part in parts for one in read_downstream(part)]
    assert validity(runs, both).coefficients == whole.coefficients
    with pytest.raises(ComparisonError, match="hazy0 under none has two downstream results"):
        validity(runs, [*both, *read_downstream(parts[0])])
    with pytest.raises(ComparisonError, match="rest on different answers"):
        validity(runs, [both[0], replace(both[1], complete=False)])


def test_the_best_of_one_ranks_nobody(planted):
    _, file = planted(3, n_rows=40)
    assert read_downstream(file)[0].k == 4
    with pytest.raises(UsageError, match="the best of 1 is the same for every scorer"):
        read_downstream(file, 1)
    said = json.loads(file.read_text())
    at = [said["ks"].index(k) for k in (1, 8)]
    for one in said["downstream"]:
        one["by_row"] = [[row[k] for k in at] for row in one["by_row"]]
    file.write_text(json.dumps({**said, "ks": [1, 8]}))
    assert read_downstream(file)[0].k == 8
    file.write_text(json.dumps({**said, "ks": [1], "downstream": [
        {**one, "by_row": [[row[0]] for row in one["by_row"]]} for one in said["downstream"]
    ]}))  # fmt: skip
    with pytest.raises(UsageError, match="the best of 1 is the same"):
        read_downstream(file)


def contrasted(document, mirror, gone=None):
    """Say of a document's measure that it is a contrast, with these mirrors."""
    document["mirrors"] = [document["rows"][mirror(k)] for k in range(len(document["rows"]))]
    document["users"] = [f"u{k % 7}" for k in range(len(document["rows"]))]
    for one in document["downstream"]:
        one["contrast"] = True
        if gone is not None:
            one["by_row"][gone] = [None for _ in one["by_row"][gone]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.pop("users"), "users: field required"),
        (lambda d: d.pop("questions"), "questions: field required"),
        (lambda d: d.update(ks=[]), "ks: list should have at least 1 item"),
        (lambda d: d["users"].pop(), "users: 39 for 40 rows"),
        (lambda d: d["downstream"][0]["by_row"].pop(), "hazy0 under none: by_row is not 40 rows"),
        (lambda d: d["downstream"][0]["by_row"][0].__setitem__(0, "x"), "downstream.0.by_row.0.0"),
        (lambda d: d["downstream"][0]["by_row"][0].__setitem__(0, float("inf")), "finite number"),
        (lambda d: d["downstream"][0]["by_row"][0].__setitem__(2, None), "of different rows"),
        (lambda d: d["downstream"].append(d["downstream"][0]), "hazy0 under none is there twice"),
        (lambda d: d["downstream"][0].update(contrast=True), "mirrors: not every row names a row"),
        (lambda d: contrasted(d, lambda k: k), "names a row of another user that names it"),
        (lambda d: contrasted(d, lambda k: k ^ 1, gone=0), "couples of which one row is left out"),
        (lambda d: d.update(schema=2), "schema: input should be 1"),
    ],
)
def test_a_document_whose_parts_do_not_fit_is_refused(planted, change, said):
    _, file = planted(3, n_rows=40)
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))
    with pytest.raises(DataError, match=said) as error:
        read_downstream(file)
    assert "\n" not in str(error.value)
    assert str(file) in str(error.value)
