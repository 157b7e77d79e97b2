"""palate train METHOD, adapt, evaluate and learning-curve, as a user types them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import run, write_rows
from palate.errors import ModelError, UsageError
from palate.scorers.personal_policy import ReferencePolicy

USERS = [f"u{k}" for k in range(12)]


@pytest.fixture(scope="module")
def votes(tmp_path_factory):
    """Half the users like exclamation marks, half do not; couples judge the same pairs."""
    stream = np.random.default_rng(0)
    file = tmp_path_factory.mktemp("votes") / "votes.jsonl"
    with file.open("w") as out:
        for n in range(30):
            loud = " ".join(["Go!"] * int(stream.integers(3, 9)))
            calm = " ".join(["contemplation"] * int(stream.integers(3, 9)))
            for k, user in enumerate(USERS):
                first = (k % 2 == 0) == (stream.random() < 0.95)
                row = {"id": f"{n}-{user}", "user_id": user, "question": f"Day {n}?",
                       "chosen": loud if first else calm, "rejected": calm if first else loud,
                       "split": "adapt" if n < 22 else "test"}  # fmt: skip
                out.write(json.dumps(row) + "\n")
    return file


@pytest.fixture(scope="module")
def model(votes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "heads"
    words = ("--data", votes, "--embedder", "style", "--held-out-users", "0.25", "-o", folder)
    run("train", "user-heads", *words)
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Results go under the working folder."""
    monkeypatch.chdir(tmp_path)


def test_training_says_what_it_learnt_from(votes, tmp_path):
    said = run(
        "train", "bradley-terry", "--data", votes, "--embedder", "style", "--leave-out", "u0",
        "--set", "ridge=2", "-o", tmp_path / "bt",
    )  # fmt: skip
    assert "bradley-terry from 242 choices of 11 users, 1 users left out" in said
    assert "ridge 2.0" in said


def test_the_grid_of_a_personal_model_tells_gain_and_identity_gain(votes, model, tmp_path):
    said = json.loads(
        run("evaluate", "-b", votes, "-s", f"personal:{model}", "-o", tmp_path, "--format", "json")
    )
    states = [one["scorer"].partition("?")[2] for one in said["runs"]]
    assert states == ["", "state=prior", "state=stranger"]
    gains = {one["kind"]: one for one in said["gains"]}
    assert gains["gain"]["against"] == "state=prior"
    assert gains["gain"]["low"] > 0
    assert gains["identity"]["low"] > 0
    again = run("evaluate", "-b", votes, "-s", f"personal:{model}", "-o", tmp_path, "--details")
    assert "bytes of state per user" in again


def test_states_are_adapted_once_and_used_elsewhere(votes, model, tmp_path):
    users = tmp_path / "users.safetensors"
    said = run("adapt", model, "--choices", votes, "-o", users)
    assert "12 users, 64 bytes of state each" in said
    with_file, with_split = (
        run("evaluate", "-b", votes, "-s", spec, "-o", tmp_path / name, "--format", "json")
        for name, spec in (("a", f"personal:{model}?users={users}"), ("b", f"personal:{model}"))
    )
    ours, theirs = (json.loads(text)["runs"] for text in (with_file, with_split))
    assert [run["accuracy"] for run in ours] == [run["accuracy"] for run in theirs]


def test_a_curve_rises_with_choices_and_is_drawn(votes, model, tmp_path):
    picture = tmp_path / "curve.png"
    said = json.loads(
        run("learning-curve", "-b", votes, "-m", model, "--shots", "0", "--shots", "5",
            "--shots", "20", "--repeats", "2", "--plot", picture, "--format", "json")
    )  # fmt: skip
    points = [one for one in said["points"] if one["group"] == "all"]
    assert [one["shots"] for one in points] == [0, 5, 20, "all"]
    values = [one["accuracy"]["value"] for one in points]
    assert values[0] < values[1] < values[-1] + 0.05
    assert {one["group"] for one in said["points"]} == {"all", "trained", "held_out"}
    assert picture.read_bytes()[:4] == b"\x89PNG"
    words = ("--shots", 0, "--shots", 5, "--mirrors", "only")
    table = run("learning-curve", "-b", votes, "-m", model, *words)
    assert "residual accuracy" in table


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--set", "rank=2", "rank"),
        ("--set", "ridge", "name=value"),
        ("--held-out-users", "1", "share"),
        ("--leave-out", "x", "no such"),
    ],
)
def test_bad_words_are_one_line(votes, tmp_path, option, value, said):
    words = ("--embedder", "style", option, value, "--data", votes, "-o", tmp_path / "out")
    with pytest.raises(UsageError, match=said):
        run("train", "user-heads", *words)
    assert not (tmp_path / "out").exists()


def test_files_that_are_none_are_one_line(votes, model, tmp_path):
    with pytest.raises(UsageError, match=r"ends in \.safetensors"):
        run("adapt", model, "--choices", votes, "-o", tmp_path / "users.bin")
    with pytest.raises(ModelError, match="no personal reward model"):
        run("adapt", tmp_path, "--choices", votes, "-o", tmp_path / "users.safetensors")
    with pytest.raises(UsageError, match="-1 choices; expected 0 or more"):
        run("learning-curve", "-b", votes, "-m", model, "--shots", "-1")
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="cannot be read"):
        run("evaluate", "-b", votes, "-s", f"personal:{model}?users={broken}", "-o", tmp_path)


def test_choices_of_a_file_and_drawn_shots(votes, model, tmp_path):
    rows = [json.loads(line) for line in votes.read_text().splitlines()]
    for name, split in (("past", "adapt"), ("test", "test")):
        kept = [
            {k: v for k, v in row.items() if k != "split"} for row in rows if row["split"] == split
        ]
        write_rows(tmp_path / f"{name}.jsonl", kept)
    said = json.loads(
        run("evaluate", "-b", tmp_path / "test.jsonl", "-s", f"personal:{model}", "-o", tmp_path,
            "--choices", tmp_path / "past.jsonl", "--shots", "1", "--shots", "10", "--repeats", "2",
            "--format", "json")
    )  # fmt: skip
    own = {
        one["scorer"]: one["accuracy"]["value"]
        for one in said["runs"]
        if "state" not in one["scorer"]
    }
    assert [spec.partition("?")[2] for spec in own] == [
        "shots=1", "repeat=1&shots=1", "shots=10", "repeat=1&shots=10"
    ]  # fmt: skip
    one, other, *many = own.values()
    assert min(many) > (one + other) / 2 - 0.05
    assert len({one["scorer"] for one in said["runs"]}) == 12, "own, prior and stranger of each"


def test_a_personal_policy_is_trained_adapted_and_evaluated(votes, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    base = tiny.model(max_position_embeddings=512)
    few = tmp_path / "few.jsonl"
    rows = votes.read_text().splitlines()
    few.write_text("\n".join(rows[k] for k in range(len(rows)) if k % 12 < 4 and k // 12 > 17))
    said = run(
        "train", "p-dpo", "--base", base, "--data", few, "--held-out-users", "0.25", "--steps", "2",
        "--tokens", "2", "-o", tmp_path / "p", "--dtype", "float32", "--device", "cpu",
    )  # fmt: skip
    assert "2 steps in" in said and "on 12 of 12 choices of 3 users, 1 users left out" in said
    assert "loss" in said and "personal:" in said
    users = tmp_path / "users.safetensors"
    adapted = run("adapt", tmp_path / "p", "--choices", few, "-o", users, "--device", "cpu")
    assert "4 users, 256 bytes of state each" in adapted
    document = json.loads(
        run("evaluate", "-b", few, "-s", f"personal:{tmp_path / 'p'}", "-o", tmp_path / "runs",
            "--format", "json", "--device", "cpu")
    )  # fmt: skip
    states = [one["scorer"].partition("?")[2] for one in document["runs"]]
    assert states == ["", "state=prior", "state=stranger"]
    assert {one["kind"] for one in document["gains"]} == {"gain", "identity"}
    assert "p-dpo" in run("list", "methods")
    with pytest.raises(UsageError, match="has no reference model"):
        run("adapt", model_of_style(votes, tmp_path), "--choices", few, "-o", users,
            "--reference", base)  # fmt: skip
    with pytest.raises(ModelError, match="not the model it was trained from"):
        run("adapt", tmp_path / "p", "--choices", few, "-o", users, "--reference", tiny.model())
    read, plainly = [], ReferencePolicy.score_prepared

    def counted(self, prepared):
        read.append(len(prepared))
        return plainly(self, prepared)

    monkeypatch.setattr(ReferencePolicy, "score_prepared", counted)
    curve = json.loads(
        run("learning-curve", "-b", few, "-m", tmp_path / "p", "-m", tmp_path / "bt",
            "--shots", "0", "--shots", "2", "--repeats", "1", "--fixed", "2", "--device", "cpu",
            "--format", "json")
    )  # fmt: skip
    points = {(one["model"], one["shots"]): one for one in curve["points"] if one["group"] == "all"}
    assert set(points) == {(name, k) for name in ("p", "bt") for k in (0, 2, "all")}
    assert {one["n_pairs"] for one in points.values()} == {32}
    assert read.count(32) == 1, "the reference is read once for all points"
    own = document["runs"][0]["accuracy"]["value"]
    assert points["p", "all"]["accuracy"]["value"] == pytest.approx(own, abs=1e-6)


def model_of_style(votes, tmp_path):
    run("train", "bradley-terry", "--data", votes, "--embedder", "style", "-o", tmp_path / "bt")
    return tmp_path / "bt"


def test_yardsticks_that_would_mislead_are_refused(votes, model):
    with pytest.raises(UsageError, match="--majority means nothing on mirrored couples"):
        run("learning-curve", "-b", votes, "-m", model, "--mirrors", "only", "--majority")
    with pytest.raises(UsageError, match="it reads users' choices; name its folder with -m"):
        run("learning-curve", "-b", votes, "-m", model, "--baseline", f"personal:{model}")
    said = run("learning-curve", "-b", votes, "-m", model, "--shots", "0", "--majority",
               "--baseline", "longest")  # fmt: skip
    assert "majority of the others" in said
