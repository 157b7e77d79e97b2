"""Both sides found in folders: loaded back, joined, refused in one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from palate.errors import ComparisonError, RunError, UsageError
from palate.runs import SCHEMA, Noise, load, load_all, read_manifest
from palate.validity import Validity, validity

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"


def one_line(call, *arguments, match, error=UsageError, **options):
    with pytest.raises(error, match=match) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def edit(file, **changes):
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def fits(name, document):
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(document)


def test_every_kind_is_loaded_back_as_it_was(planted, tmp_path):
    runs, best = planted(4, n_rows=40, root=tmp_path)
    found = validity(tmp_path, root=tmp_path, metrics=["accuracy"])
    for result in (best, found):
        again = load(result.folder)
        assert again == result
        assert again.document() == json.loads((result.folder / "summary.json").read_text())
        assert str(again) == str(result)
    np.testing.assert_array_equal(load(best.folder).expected, best.expected)
    assert best.folder.parent == tmp_path / "planted" / "best-of-n"
    assert found.folder.parent == tmp_path / "planted" / "validity"
    scores = load_all(tmp_path, "scores")
    assert [one.summary.scorer for one in scores] == [f"hazy{k}" for k in range(4)]
    assert scores[0].values.shape == (40, 8)
    assert "scores of samples by p" in str(scores[0])
    assert len(load_all(tmp_path)) == len(runs) + len(scores) + 2
    for result in (best, found, scores[0]):
        fits(result.kind, json.loads((result.folder / "summary.json").read_text()))
        for line in (result.folder / "rows.jsonl").read_text().splitlines():
            fits(f"{result.kind}.rows", json.loads(line))
    # What was read is named by content.
    named = {one.folder.name: one.content_hash for one in scores}
    assert named.items() <= read_manifest(best.folder).inputs.items()
    inputs = read_manifest(found.folder).inputs
    assert len(inputs) == len(runs) + 1
    assert inputs[f"planted/best-of-n/{best.folder.name}"] == best.content_hash
    rows = [json.loads(line) for line in (found.folder / "rows.jsonl").read_text().splitlines()]
    assert [row["scorer"] for row in rows] == [f"hazy{k}" for k in range(4)]
    (one,) = found.summary.coefficients
    assert rows[0]["downstream_value"] == one.scorers[0].downstream_value


def test_results_in_memory_and_on_disk_say_the_same(planted, tmp_path):
    runs, best = planted(4, n_rows=40, root=tmp_path)
    whole = validity(tmp_path, root=None)
    assert validity([*runs, best], root=None) == whole
    assert validity([tmp_path, best, best.folder], root=None) == whole, "each folder once"
    assert validity([tmp_path / "planted" / one for one in ("hazy0", "hazy1", "hazy2", "hazy3")]
                    + [best], root=None) == whole  # fmt: skip
    assert isinstance(validity([replace(run, folder=None) for run in runs]
                               + [replace(best, folder=None)], root=None), Validity)  # fmt: skip


def test_results_on_the_same_answers_are_joined(planted, tmp_path):
    runs, best = planted(4, n_rows=40)
    parts = [planted(4, n_rows=40, some=some)[1] for some in (slice(0, 2), slice(1, None))]
    whole = validity([*runs, best], root=None).summary.coefficients
    assert validity([*runs, *parts], root=None).summary.coefficients == whole
    rows = tuple(
        row.model_copy(update={"values": tuple(value / 2 for value in row.values)})
        for row in parts[1].rows
    )  # fmt: skip
    one_line(validity, [*runs, parts[0], replace(parts[1], rows=rows)], error=ComparisonError,
             match="hazy1 under none picks otherwise in .*; name one of them")  # fmt: skip
    update = {"unrated": {"truth": {"unread": 1}}}
    unread = replace(parts[1], summary=parts[1].summary.model_copy(update=update))
    one_line(validity, [*runs, parts[0], unread], match="rest on different answers of p",
             error=ComparisonError)  # fmt: skip


def test_the_best_of_one_ranks_nobody(planted):
    _, best = planted(3, n_rows=40)
    assert [one.of.k for one in best.downstream()] == [4]
    one_line(best.downstream, 1, match="the best of 1 is the same for every scorer")
    _, two = planted(3, n_rows=40, ks=[1, 8])
    assert two.downstream()[0].of.k == 8
    _, one = planted(3, n_rows=40, ks=[1])
    one_line(one.downstream, match="the best of 1 is the same")


def test_another_model_is_told_with_both_folders(planted, tmp_path):
    runs, best = planted(4, n_rows=40, root=tmp_path)
    manifest = runs[1].folder / "manifest.json"
    made = json.loads(manifest.read_text())
    edit(manifest, identity={**made["identity"], "fingerprints": ["another"]})
    one_line(validity, tmp_path, error=ComparisonError, match=(
        f"hazy1 under none is one model .* in {runs[1].folder} and another in {best.folder}; "
        f"the model changed; rerun one of them \\(the older is {runs[1].folder}\\)"
    ))  # fmt: skip
    # Where the one that picked is there too, it counts.
    manifest.write_text(json.dumps(made))
    whole = validity(tmp_path, root=None)
    other = tmp_path / "planted" / "hazy1" / "none-00000000"
    other.mkdir()
    for file in runs[1].folder.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    assert validity(tmp_path, root=None) == whole, "a copy counts once"
    edit(other / "manifest.json", identity={**made["identity"], "batch_tokens": 1})
    one_line(validity, tmp_path, error=ComparisonError, match="hazy1 under none is there twice, "
             f"with other settings: {other} and {runs[1].folder}; name one of the two")  # fmt: skip
    edit(other / "manifest.json", identity={**made["identity"], "fingerprints": ["another"]})
    assert validity(tmp_path, root=None) == whole


def test_a_folder_that_lacks_a_side_is_one_line(planted, tmp_path):
    runs, best = planted(3, n_rows=40, root=tmp_path)
    name = runs[0].folder.parent
    one_line(validity, name, match=f"policy-accuracy or ppo at or under {name}; make one with")
    one_line(validity, best.folder, match=f"no finished run at or under {best.folder}; make one")
    one_line(validity, tmp_path / "none", match="no such folder", error=RunError)
    scores = best.folder.parent.parent / "scores"
    one_line(
        validity,
        scores,
        match="no finished run or best-of-n or decode or policy-accuracy or ppo or forecast at",
        error=RunError,
    )
    rows, manifest = best.folder / "rows.jsonl", best.folder / "manifest.json"
    lines = rows.read_text()
    rows.write_text("".join(lines.splitlines(keepends=True)[:-1]))
    one_line(validity, tmp_path, match="rows.jsonl does not fit summary.json", error=RunError)
    rows.write_text(lines.replace('"user"', '"person"'))
    one_line(validity, tmp_path, match="no readable rows.jsonl .user: field req", error=RunError)
    rows.write_text(lines)
    summary = (best.folder / "summary.json").read_text()
    edit(best.folder / "summary.json", ks="many")
    one_line(validity, tmp_path, match="no readable summary.json .ks: ", error=RunError)
    edit(manifest, schema=SCHEMA - 1)
    one_line(validity, tmp_path, match="written by an older version of palate", error=RunError)
    edit(manifest, schema=SCHEMA)
    (best.folder / "summary.json").unlink()
    one_line(
        validity, tmp_path, match="no finished best-of-n, decode, policy-accuracy or ppo at or"
    )
    one_line(load, best.folder, match="not finished; run the command", error=RunError)
    (best.folder / "summary.json").write_text(summary)
    assert load(best.folder) == best


def test_runs_that_hold_noise_are_named_and_no_others(planted, tmp_path):
    runs, best = planted(4, n_rows=40, root=None)
    plain = validity([*runs, best], root=None, metrics=["accuracy"])
    assert "noisy" not in plain.document()
    noise = Noise(kind="rounding", dtype="bfloat16", rows=16, sd=0.1, expected_flips=2.5)
    first = runs[0].summary.model_copy(update={"noise": noise})
    noisy = validity(
        [replace(runs[0], summary=first), *runs[1:], best], root=None, metrics=["accuracy"]
    )
    (told,) = noisy.document()["noisy"]
    assert (told["scorer"], told["noise"]["dtype"]) == (first.scorer, "bfloat16")
    fits("validity", noisy.document())
    assert "1 run holds noise of bfloat16: at most 2.5 verdicts of it" in " ".join(
        str(noisy).split()
    )
    unknown = Noise(kind="rounding", dtype="bfloat16", note="not asked for")
    second = runs[1].summary.model_copy(update={"noise": unknown})
    both = [replace(runs[0], summary=first), replace(runs[1], summary=second), *runs[2:], best]
    told = " ".join(str(validity(both, root=None, metrics=["accuracy"])).split())
    assert "2 runs hold noise of bfloat16: at most 2.5 verdicts of one" in told
    assert "to turn; that of 1 was not measured." in told
