"""Rewards of a personal policy against plain forwards; whose state; what is never read twice."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from palate.benchmarks import Dataset, mirrors
from palate.comparison import evaluate, plan_grid, run_grid
from palate.contexts import build_context
from palate.engines import LocalModel
from palate.errors import BenchmarkError, DataError, ModelError, SpecError, UsageError
from palate.evaluation import Work, concordance, make_rows, own_user_keys, state_scales
from palate.learning import STATE, PersonalModel, PersonalPolicy, UserStates, adapt_policy
from palate.records import PreferencePair, Settings, Slate, user_key
from palate.scorers import build_scorer
from palate.session import default_session
from policies import TOKENS, choice, plainly, untrained
from tiny import ENDS_WITH_EOS, make_slate

SETTINGS = Settings(dtype="float32", device="cpu")
TOLERANCE = 1e-3
RESPONSES = ("Tea.", "Coffee, black, in a tin mug by the fire.", "Neither; it is late.")
USERS = ("ann", "bob", "cid", "dot")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALATE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def made(tiny, tmp_path_factory, cache):
    return untrained(tiny, tmp_path_factory.mktemp("policies") / "p")


@pytest.fixture(scope="module")
def base(tiny):
    return tiny.model(template=ENDS_WITH_EOS)


@pytest.fixture(scope="module")
def states(made, tmp_path_factory):
    """States of ann and bob, far from everybody's."""
    policy, _ = made
    offsets = np.random.default_rng(1).normal(size=(2, *policy.generic.shape)).astype(np.float32)
    keys = (user_key("ann"), user_key("bob"))
    file = tmp_path_factory.mktemp("states") / "users.safetensors"
    UserStates(keys, {STATE: offsets}, policy.fingerprint).save(file)
    return file, offsets


def scorer_of(policy: PersonalPolicy, query: str = ""):
    return build_scorer(f"personal:{policy.folder}?{query}", default_session(), SETTINGS)


def asked_by(user: str | None, slate: Slate | None = None) -> Slate:
    slate = slate or make_slate(*RESPONSES, shown=("I roast my own beans.",))
    return slate.replace(user=user and user_key(user))


def values(scorer, *slates):
    found = dict(scorer.score(slates))
    return [found[k].values for k in range(len(slates))]


def pairs(name: str = "votes", *, mirrored: bool = False) -> Dataset:
    def row(user: str, k: int, split: str) -> PreferencePair:
        turned = mirrored and user in ("bob", "dot")
        own = k if mirrored else k + 7 * USERS.index(user)
        one = choice(own, turned)
        return PreferencePair(
            id=f"{split}-{user}-{k}", user_id=user, text=f"{one.question} {own}",
            chosen=one.chosen, rejected=one.rejected, split=split,
        )  # fmt: skip

    adapted = [row(user, k, "adapt") for user in USERS for k in range(2)]
    return Dataset(name, (*adapted, *(row(u, k, "test") for u in USERS for k in (4, 5)))).select()


def test_a_reward_is_that_of_a_plain_forward_with_adapters_and_vectors_put_in(made, base, states):
    import transformers

    policy, adapted = made
    file, offsets = states
    reference = transformers.AutoModelForCausalLM.from_pretrained(base).eval()
    slate = make_slate(*RESPONSES, shown=("I roast my own beans.",))
    theirs = plainly(reference, base, slate)
    own = scorer_of(policy, f"users={file}")
    vectors = {None: policy.generic, "ann": policy.generic + offsets[0],
               "bob": policy.generic + offsets[1], "nobody": policy.generic}  # fmt: skip
    found = values(own, *(asked_by(user) for user in vectors))
    for ours, soft in zip(found, vectors.values(), strict=True):
        sums = plainly(adapted, base, slate, soft)
        expected = [policy.beta * (a - b) for a, b in zip(sums, theirs, strict=True)]
        assert ours == pytest.approx(expected, abs=TOLERANCE)
    assert np.ptp([scores[0] for scores in found]) > 10 * TOLERANCE
    assert found[0] == found[3], "a user without a state is the generic user"
    (prior,) = values(scorer_of(policy, "state=prior"), asked_by(None))
    assert prior == pytest.approx(found[0], abs=1e-4)
    assert own.info.log_odds and own.info.needs_user


def test_no_choices_are_the_prior_exactly(made):
    policy, _ = made
    nothing = scorer_of(policy).adapted({"ann": [], "bob": []})
    prior = scorer_of(policy, "state=prior")
    assert values(nothing, asked_by("ann")) == values(prior, asked_by(None))
    assert values(nothing, asked_by("nobody")) == values(prior, asked_by(None))
    drawn = scorer_of(policy, "shots=0").adapted({"ann": [choice(1)]})
    assert values(drawn, asked_by("ann")) == values(prior, asked_by(None))


@pytest.mark.parametrize("more", ["", "&state=prior", "&minus=prior"])
def test_every_token_has_its_reward_and_they_sum_to_the_score(made, states, more):
    policy, _ = made
    scorer = scorer_of(policy, f"users={states[0]}{more}")
    slate = asked_by(None if "state" in more else "ann")
    found = scorer.token_rewards(slate)
    (scores,) = values(scorer, slate)
    assert [sum(rewards) for rewards in found] == pytest.approx(scores, abs=1e-4)
    template = scorer.models[0].local.template
    ends = [template.closed(slate.question, text) for text in slate.candidates]
    assert [len(rewards) for rewards in found] == [len(end.ids) - end.start for end in ends]
    assert len(set(found[1])) > 5
    with pytest.raises(DataError, match="longer than the window"):
        scorer.token_rewards(slate.replace(candidates=("Tea.", "water " * 1100)))


def test_minus_prior_needs_no_reference(made, states, monkeypatch):
    policy, _ = made
    own, prior, particular = (
        values(scorer_of(policy, f"users={states[0]}{more}"), asked_by("ann"))[0]
        for more in ("", "&state=prior", "&minus=prior")
    )
    assert particular == pytest.approx(np.subtract(own, prior), abs=1e-4)
    scorer = scorer_of(policy, f"users={states[0]}&minus=prior")
    assert not scorer.info.log_odds
    assert {part.scorer.local.reference.name for part in scorer.components} == {policy.policy.name}


def test_scorers_that_share_a_loaded_model_do_not_disturb_each_other(made, states):
    policy, _ = made
    own = scorer_of(policy, f"users={states[0]}")
    other = scorer_of(policy).adapted({"ann": [choice(1), choice(2)]})
    assert own.models[0].local.model is other.models[0].local.model
    alone = values(own, asked_by("ann")), values(other, asked_by("ann"))
    ours, theirs = own.score([asked_by("ann")] * 2), other.score([asked_by("ann")] * 2)
    for (_, a), (_, b) in zip(ours, theirs, strict=True):
        assert a.values == pytest.approx(alone[0][0], abs=1e-4)
        assert b.values == pytest.approx(alone[1][0], abs=1e-4)
    words = own.models[0].local.model.model.get_input_embeddings()
    assert words.weight.shape[0] == 1024 and not hasattr(words, "words"), "as it was loaded"


def test_opposite_choices_pull_one_pair_apart(made):
    policy, _ = made
    scorer = scorer_of(policy).adapted({"ann": [choice(1)] * 8, "bob": [choice(1, True)] * 8})
    liked = choice(1)
    slate = make_slate(liked.chosen, liked.rejected, question=liked.question)
    (a, b), (c, d) = values(scorer, asked_by("ann", slate), asked_by("bob", slate))
    ((e, f),) = values(scorer, asked_by(None, slate))
    assert a - b > e - f > c - d


def test_a_grid_runs_three_states_and_reads_the_reference_once(made, base, tmp_path, monkeypatch):
    policy, _ = made
    spec = f"personal:{policy.folder}"
    evaluate(pairs(), f"autoregressive:{base}", "none", root=tmp_path, settings=SETTINGS)
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    adapt_policy(policy, {user_key(u): [] for u in USERS}, default_session(), SETTINGS)
    read: list[str] = []
    own = LocalModel.log_probabilities

    def counted(self, *groups, **options):
        read.append(self.reference.name)
        return own(self, *groups, **options)

    monkeypatch.setattr(LocalModel, "log_probabilities", counted)
    cells = plan_grid([pairs()], [spec], ["none"], Work.of(settings=SETTINGS))
    assert [cell.scorer.partition("?")[2] for cell in cells] == [
        "", "state=prior", "state=stranger"
    ]  # fmt: skip
    grid = run_grid(cells, Work.of(settings=SETTINGS, root=tmp_path))
    assert {gain.kind: gain.against for gain in grid.gains} == {
        "gain": "state=prior", "identity": "state=stranger",
    }  # fmt: skip
    assert [run.summary.unscored for run in grid.runs] == [0, 0, 0]
    assert "bytes of state per user" in " ".join(grid.runs[0].summary.notes)
    # Of the reference only the adapt_policy rows are read, for learning; the scores lay on disk.
    assert read.count(base) == 1
    assert read.count(policy.policy.name) == 3
    before = {file: file.read_bytes() for file in tmp_path.rglob("summary.json")}
    read.clear()
    shutil.rmtree(tmp_path / "cache")
    monkeypatch.setattr(
        LocalModel, "__init__", lambda *given, **named: pytest.fail("a model is loaded")
    )
    again = run_grid(cells, Work.of(settings=SETTINGS, root=tmp_path))
    assert [run.summary for run in again.runs] == [run.summary for run in grid.runs]
    assert before == {file: file.read_bytes() for file in tmp_path.rglob("summary.json")}


def test_a_run_cut_short_goes_on_to_the_same_bytes(made, tmp_path):
    policy, _ = made
    spec = f"personal:{policy.folder}"
    whole = evaluate(pairs(), spec, "none", root=tmp_path / "a", settings=SETTINGS)
    first = evaluate(pairs(), spec, "none", root=tmp_path / "b", settings=SETTINGS)
    journal = first.folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[: journal.stat().st_size // 2])
    (first.folder / "summary.json").unlink()
    evaluate(pairs(), spec, "none", root=tmp_path / "b", settings=SETTINGS)
    expected = (whole.folder / "summary.json").read_bytes()
    assert (first.folder / "summary.json").read_bytes() == expected


def test_on_mirrors_each_users_confidence_is_taken_out_and_measured_once(
    made, states, tmp_path, monkeypatch
):
    policy, _ = made
    votes = mirrors(pairs(mirrored=True))
    spec = f"personal:{policy.folder}?users={states[0]}"
    run = evaluate(votes, spec, "none", root=tmp_path, settings=SETTINGS)
    rows = make_rows(
        votes, build_context("none", default_session()), seed=0, user_keys=own_user_keys
    )
    scorer = scorer_of(policy, f"users={states[0]}")
    assert scorer.scale_pairs == 20
    expected = {}
    for user in USERS:
        margins = [
            first - second
            for pair in {rows.bare(k).id: rows.bare(k) for k in range(len(rows))}.values()
            for first, second in values(scorer, pair.replace(user=user_key(user)))
        ]
        expected[user] = float(np.sqrt(np.mean(np.square(margins))))
    assert expected["ann"] != pytest.approx(expected["cid"], rel=0.05)
    scales = np.array([expected[pair.user_id] for pair in votes.pairs])
    assert state_scales(scorer, rows, 0, default_session().store) == pytest.approx(scales, rel=1e-3)
    assert run.summary.concordance.value == concordance(run.verdicts, scales).value
    monkeypatch.setattr(
        LocalModel, "__init__", lambda *given, **named: pytest.fail("a model is loaded")
    )
    again = evaluate(votes, spec, "none", root=tmp_path, settings=SETTINGS)
    assert again.summary == run.summary


def test_a_strangers_state_is_a_third_users_drawn_for_every_row(made, states):
    policy, _ = made
    keys = tuple(map(user_key, USERS))
    offsets = np.random.default_rng(2).normal(size=(4, *policy.generic.shape)).astype(np.float32)
    file = states[0].with_name("all.safetensors")
    UserStates(keys, {STATE: offsets}, policy.fingerprint).save(file)
    votes = mirrors(pairs(mirrored=True))
    partner = {votes.pairs[a].id: votes.pairs[b].user_id
               for i, j in votes.couples for a, b in ((i, j), (j, i))}  # fmt: skip
    runs = [
        evaluate(votes, f"personal:{policy.folder}?users={file}&state=stranger{more}", "none",
                 root=None, settings=SETTINGS)
        for more in ("", "&draws=2", "&draws=7")
    ]  # fmt: skip
    own = scorer_of(policy, f"users={file}")
    rows = make_rows(votes, build_context("none", default_session()), seed=0)
    two_ways = 0
    for k, pair in enumerate(votes.pairs):
        third = [u for u in USERS if u not in (pair.user_id, partner[pair.id])]
        assert len(third) == 2
        side = 1 if rows.chosen_position(k) == 0 else -1
        margins = [side * (a - b) for user in third
                   for a, b in values(own, rows.bare(k).replace(user=user_key(user)))]  # fmt: skip
        one, two, seven = (run.verdicts.rows[k] for run in runs)
        assert one.share is None
        assert min(abs(one.margin - margin) for margin in margins) < 1e-4
        two_ways += abs(one.margin - margins[0]) < 1e-4
        assert (two.margin, two.share) == (None, sum(margin > 0 for margin in margins) / 2)
        assert seven == two, "there are two third users"
    assert 0 < two_ways < len(votes.pairs)
    assert [run.summary.mirrored_accuracy.value for run in runs[1:]] == [0.5, 0.5]
    assert runs[0].summary.concordance.value is not None
    assert runs[1].summary.concordance.value is None


def test_draws_are_for_strangers(made):
    policy, _ = made
    for query in (
        "draws=2",
        "state=prior&draws=2",
        "state=stranger&draws=0",
        "state=stranger&draws=257",
    ):
        with pytest.raises(SpecError) as caught:
            scorer_of(policy, query)
        assert "\n" not in str(caught.value)


def test_one_draw_is_the_same_run_as_no_draws(made, states, tmp_path):
    policy, _ = made
    spec = f"personal:{policy.folder}?state=stranger&users={states[0]}"
    one, same = (
        evaluate(pairs(), text, "none", root=tmp_path, settings=SETTINGS)
        for text in (spec, f"{spec}&draws=1")
    )
    assert (one.folder, one.summary.scorer) == (same.folder, same.summary.scorer)
    cells = plan_grid(
        [pairs()],
        [spec, f"{spec}&draws=1", f"{spec}&draws=2"],
        ["none"],
        Work.of(settings=SETTINGS),
    )
    assert [cell.draws for cell in cells] == [1, 2]
    assert cells[0].scorer == one.summary.scorer


def test_a_test_pair_is_never_learnt_from(made):
    policy, _ = made
    some = pairs()
    leak = some.pairs[0].model_copy(update={"id": "another", "split": "adapt"})
    with pytest.raises(BenchmarkError, match="never learnt from"):
        evaluate(replace(some, history=(leak,)), f"personal:{policy.folder}", "none", root=None)


def test_a_stranger_who_is_not_there_leaves_the_row_unscored(made):
    policy, _ = made
    scorer = scorer_of(policy, "state=stranger").adapted({"ann": [choice(1)]})
    found = dict(scorer.score([asked_by(None), asked_by("ann")]))
    assert found[0].reasons == ("no stranger",) * 3
    assert None not in found[1].values


def test_what_is_shown_leaves_room_for_the_tokens(made, tmp_path, base):
    policy, _ = made
    folder = shutil.copytree(policy.folder, tmp_path / "short")
    config = folder / "policy" / "config.json"
    slate = make_slate(*RESPONSES, shown=["beans " * 30, "tea " * 30])
    scorer = scorer_of(policy, "state=prior")
    longest = max(len(ids) for ids, _ in scorer.models[0].encoded(slate))
    said = json.loads(config.read_text())
    for window, parts in ((longest, 2), (longest - 1, 1)):
        config.write_text(json.dumps({**said, "max_position_embeddings": window}))
        spec = f"personal:{folder}?state=prior&reference={base}"
        short = build_scorer(spec, default_session(), SETTINGS)
        assert len(short.prepare(slate).slate.shown) == parts
        assert all(part.scorer.prepare(slate).slate.shown == short.prepare(slate).slate.shown
                   for part in short.components)  # fmt: skip


def test_what_the_policy_reads_is_shown_with_the_place_of_the_tokens(made):
    policy, _ = made
    (first, *_) = scorer_of(policy, "state=prior").prompts(make_slate(*RESPONSES))
    assert first.startswith(f"<|im_start|>user\n[{TOKENS} tokens of the user]Tea or coffee?")


def test_a_worker_gets_states_and_no_model(made):
    policy, _ = made
    scorer = scorer_of(policy).adapted({"ann": [choice(1)]})
    before = values(scorer, asked_by("ann"))
    sent = pickle.dumps(scorer)
    assert len(sent) < 100_000
    assert values(pickle.loads(sent), asked_by("ann")) == before


def test_states_of_a_file_and_of_the_same_choices_are_one(made, tmp_path):
    policy, _ = made
    history = {"ann": [choice(1), choice(2)], "bob": [choice(3)]}
    found = adapt_policy(
        policy, {user_key(user): own for user, own in history.items()}, default_session(), SETTINGS
    )
    found.save(tmp_path / "users.safetensors")
    filed = scorer_of(policy, f"users={tmp_path}/users.safetensors")
    assert values(filed, asked_by("bob")) == values(
        scorer_of(policy).adapted(history), asked_by("bob")
    )
    assert filed.known == tuple(sorted(map(user_key, ("ann", "bob"))))


def test_what_is_missing_or_of_another_model_is_one_line(made, tiny, tmp_path, states):
    policy, _ = made
    spec = f"personal:{policy.folder}"
    with pytest.raises(UsageError, match="holds no earlier choices"):
        evaluate(replace(pairs(), history=()), spec, "none", root=None)
    with pytest.raises(ModelError, match="not the model it was trained from"):
        build_scorer(f"{spec}?reference={tiny.model()}", default_session(), SETTINGS)
    with pytest.raises(ModelError, match="its reference is not there"):
        build_scorer(f"{spec}?reference={tmp_path}/none", default_session(), SETTINGS)
    with pytest.raises(UsageError, match="not from users="):
        build_scorer(f"{spec}?users={states[0]}&shots=2", default_session(), SETTINGS)
    with pytest.raises(SpecError, match="unknown option 'beta'"):
        build_scorer(f"{spec}?beta=1", default_session(), SETTINGS)
    with pytest.raises(ModelError, match="not a personal reward model on vectors"):
        PersonalModel.load(policy.folder)
    UserStates((), {STATE: np.zeros((0, TOKENS, 32), "f4")}, "x").save(tmp_path / "x.safetensors")
    with pytest.raises(ModelError, match="states of another model"):
        build_scorer(f"{spec}?users={tmp_path}/x.safetensors", default_session(), SETTINGS)
    moved = Path(shutil.copytree(policy.folder, tmp_path / "deeper" / "p"))
    with pytest.raises(ModelError, match="name it, as in"):
        build_scorer(f"personal:{moved}", default_session(), SETTINGS)
    (moved / "policy" / "user_tokens.safetensors").unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        build_scorer(f"personal:{moved}", default_session(), SETTINGS)


def test_who_joins_has_their_state_and_those_present_keep_theirs(made, states):
    policy, _ = made
    file, offsets = states
    for before in (scorer_of(policy, f"users={file}"), scorer_of(policy)):
        joined = before.join({"zoe": [choice(1), choice(2)]})
        alone = scorer_of(policy).adapted({"zoe": [choice(1), choice(2)]})
        place = joined.users.place
        assert joined.users.states["offsets"][place[user_key("zoe")]] == pytest.approx(
            alone.users.states["offsets"][0], abs=1e-6
        )
        if before.users is not None:
            assert joined.users.states["offsets"][:2].tobytes() == offsets.tobytes()
            assert values(joined, asked_by("ann")) == values(before, asked_by("ann"))
        assert values(joined, asked_by("zoe")) == [
            pytest.approx(scores, abs=TOLERANCE) for scores in values(alone, asked_by("zoe"))
        ]
        assert joined.known == before.known, "who joins is nobody's third user"
        again = joined.join({"zoe": [choice(5, True)]})
        other = scorer_of(policy).adapted({"zoe": [choice(5, True)]})
        assert again.users.states["offsets"][again.users.place[user_key("zoe")]] == pytest.approx(
            other.users.states["offsets"][0], abs=1e-6
        )
