"""What holds of every method that starts from a language model."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from pairs import pair_of
from palate.errors import DataError, ModelError, UsageError
from palate.learning.recipes import RECIPES, TrainedModel
from palate.models import resolve
from palate.records import Post, PreferencePair, RubricAspect
from palate.specs import Reference, load
from tasks import task

FAST = {"batch_pairs": 4, "device": "cpu", "dtype": "float32", "max_length": 600}


def pairs(n: int = 24, **fields: Any) -> list[PreferencePair]:
    return [
        pair_of(**{
            "id": f"p{k}", "user_id": f"u{k % 6}", "text": f"What shall we cook on day {k}?",
            "chosen": f"{'Soup. ' * (1 + k % 5)} {k}", "rejected": f"{'Bread. ' * (1 + k % 3)} {k}",
            "profile": (Post(id="1", text=f"I wrote {k}."),),
            "rubric_aspects": (RubricAspect(aspect=f"Warm food {k}"),), **fields,
        })
        for k in range(n)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def base(tiny: Any) -> Reference:
    return Reference.parse(tiny.model(pad_token_id=2))


@pytest.fixture(params=["classifier", "autoregressive", "planner", "p-dpo"])
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def trained(
    method: str, some: list[PreferencePair], base: Reference, folder: Path, **how: Any
) -> TrainedModel:
    made: TrainedModel = load(RECIPES, method).train(task(some, base, folder, **{**FAST, **how}))
    return made


def weights(folder: Path) -> dict[str, bytes]:
    return {
        f"{file.relative_to(folder)} {name}": array.tobytes()
        for file in sorted(folder.rglob("*.safetensors"))
        for name, array in load_file(file).items()
    }


def test_one_seed_one_model(method: str, base: Reference, tmp_path: Path) -> None:
    first, again, other = (
        trained(method, pairs(), base, tmp_path / str(k), steps=3, seed=seed)
        for k, seed in enumerate((1, 1, 2))
    )
    assert first.losses == again.losses != other.losses
    assert weights(first.folder) == weights(again.folder) != weights(other.folder)
    for name in ("palate.json", "tokenizer.json", "config.json"):
        for file in first.folder.rglob(name):
            there = again.folder / file.relative_to(first.folder)
            assert file.read_bytes() == there.read_bytes()


def test_no_steps_save_the_start(method: str, base: Reference, tmp_path: Path) -> None:
    made = trained(method, pairs(), base, tmp_path / "m", steps=0)
    assert (made.losses, made.n_seen, made.n_pairs) == ((), 0, 24)
    if method in ("autoregressive", "planner"):
        made_of, start = weights(made.folder), weights(resolve(base).path)
        assert all(made_of[name] == weight for name, weight in start.items() if name in made_of)


def test_users_left_out_play_no_part(method: str, base: Reference, tmp_path: Path) -> None:
    rest = [pair for pair in pairs() if pair.user_id not in {"u1", "u4"}]
    made = trained(method, pairs(), base, tmp_path / "a", steps=2, leave_out=["u4", "u1"])
    same = trained(method, rest, base, tmp_path / "b", steps=2)
    assert made.n_pairs == same.n_pairs == 16 and made.n_users_left_out == 2
    assert weights(made.folder) == weights(same.folder)


def test_rows_that_are_too_long_are_counted(method: str, base: Reference, tmp_path: Path) -> None:
    aspects = (RubricAspect(aspect="tea " * 900),)
    long = pairs(1, id="long", rejected="Bread. " * 500, rubric_aspects=aspects)
    for name, most in (("a", 600), ("b", 5000)):  # the model's own window is 1024
        made = trained(method, pairs() + long, base, tmp_path / name, steps=0, max_length=most)
        assert (made.n_pairs, made.n_too_long) == (24, 1)
    with pytest.raises(DataError, match=r"(of 24|each) is over -?\d tokens"):
        trained(method, pairs(), base, tmp_path / "c", max_length=9)
    assert not (tmp_path / "c").exists()


def test_progress_is_told_and_nothing_is_printed(
    method: str, base: Reference, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[tuple[int, ...]] = []

    def progress(*step: int) -> None:
        told.append(step)

    trained(method, pairs(), base, tmp_path / "m", steps=3, progress=progress)
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert capsys.readouterr().out == ""


def test_an_interrupted_run_leaves_nothing(method: str, base: Reference, tmp_path: Path) -> None:
    def stop(step: int, steps: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(method, pairs(), base, tmp_path / "m", steps=3, progress=stop)
    assert not list(tmp_path.iterdir())


WRONG = [
    ({"steps": -1}, "steps=-1: expected 0 or more"), ({"learning_rate": 0.0}, "learning_rate=0.0"),
    ({"learning_rate": math.nan}, "learning_rate=nan"), ({"batch_pairs": 0}, "batch_pairs=0"),
    ({"warmup": 1.0}, "warmup=1.0"), ({"max_length": 1}, "max_length=1"),
    ({"dtype": "float16"}, "dtype=float16: expected float32 or bfloat16"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=str)
def test_impossible_settings_are_refused(
    method: str, tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        trained(method, pairs(), Reference.parse("./none"), tmp_path / "m", **wrong)
    assert not list(tmp_path.iterdir())


def test_a_base_that_cannot_be_used_is_refused(
    method: str, base: Reference, tmp_path: Path
) -> None:
    mute = Path(shutil.copytree(resolve(base).path, tmp_path / "mute"))
    (mute / "chat_template.jinja").unlink()
    for folder, message in ((mute, "no chat template"), (tmp_path / "no", "no such folder")):
        with pytest.raises(ModelError, match=message):
            trained(method, pairs(), Reference.parse(str(folder)), tmp_path / "m")
    with pytest.raises(UsageError, match="exists already"):
        trained(method, pairs(), base, mute)
    assert not (tmp_path / "m").exists()
