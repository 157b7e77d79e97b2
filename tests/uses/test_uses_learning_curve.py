"""Learning curves: one set of users, choices that only add up, and the figures of evaluate."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from palate.benchmarks import Dataset, mirrors
from palate.comparison import evaluate
from palate.embeddings import Features
from palate.errors import UsageError
from palate.learning import PersonalModel, UserHeads, fit
from palate.records import Choice, PreferencePair, Settings
from palate.reports.learning_curve import tables as curve_tables
from palate.runs import load, load_all
from palate.scorers import build_scorer
from palate.session import default_session
from palate.uses.learning_curve import learning_curve, majority_of_others
from palate.uses.units import PairUnits

USERS = [f"u{k}" for k in range(16)]


def rows(seed: int = 0) -> tuple[PreferencePair, ...]:
    """Half the users like exclamation marks, half long words; test rows are mirrored couples."""
    stream = np.random.default_rng(seed)
    found = []
    for n in range(24):
        loud = " ".join(["Go!"] * int(stream.integers(3, 9)))
        calm = " ".join(["contemplation"] * int(stream.integers(3, 9)))
        split = "adapt" if n < 16 else "test"
        for k, user in enumerate(USERS):
            first = (k % 2 == 0) == (stream.random() < 0.9)
            partner = USERS[k + 1 if k % 2 == 0 else k - 1]
            found.append(
                PreferencePair(
                    id=f"{n}-{user}", user_id=user, text=f"Day {n}, couple {k // 2}?",
                    chosen=loud if first else calm, rejected=calm if first else loud, split=split,
                    mirror_of=f"{n}-{partner}",
                )
            )  # fmt: skip
    return tuple(found)


in_memory = partial(learning_curve, root=None)


@pytest.fixture(scope="module")
def pairs() -> Dataset:
    return Dataset("moods", rows()).select()


@pytest.fixture(scope="module")
def trained(pairs) -> PersonalModel:
    history: dict[str, list[Choice]] = {}
    for pair in pairs.history:
        if pair.user_id not in USERS[:4]:
            choice = Choice(question=pair.text, chosen=pair.chosen, rejected=pair.rejected)
            history.setdefault(pair.user_id, []).append(choice)
    return fit(
        "user-heads", history, ["style"], default_session(), Settings(), options={"variance": 3.0}
    )


@pytest.fixture(scope="module")
def points(pairs, trained):
    return in_memory(
        pairs, {"heads": trained}, shots=(0, 2, 16), repeats=3, fixed=16, settings=Settings()
    ).points


def test_each_count_has_a_point_for_all_trained_and_held_out_users(points):
    told = [(one.group, one.shots, one.n_users) for one in points]
    assert told == [
        (group, count, n)
        for count in (0, 2, 16, "all")
        for group, n in (("all", 16), ("trained", 12), ("held_out", 4))
    ]


def test_the_whole_history_gives_what_evaluate_gives(pairs, trained, points, tmp_path):
    trained.save(tmp_path)
    run = evaluate(pairs, f"personal:{tmp_path}", "none", root=None)
    whole = next(one for one in points if one.group == "all" and one.shots == "all")
    assert whole.n_pairs == run.summary.n_pairs
    assert whole.accuracy.value == pytest.approx(float(np.mean(run.verdicts.values)))
    if run.summary.concordance is not None:
        assert whole.concordance is not None
        assert whole.concordance.value == pytest.approx(run.summary.concordance.value)
    sixteen = next(one for one in points if one.group == "all" and one.shots == 16)
    assert sixteen.accuracy.value == pytest.approx(whole.accuracy.value), "all have sixteen"


def test_no_choices_is_the_prior_and_more_help_here(points):
    first, *_, last = [one for one in points if one.group == "all"]
    assert first.gain is None
    assert first.accuracy.value == pytest.approx(0.5, abs=0.1)
    assert last.gain is not None
    assert last.gain.value > 0.2
    assert last.p_gain is not None
    assert last.p_gain < 0.05


def test_nobody_with_as_many_choices_is_said(pairs, trained):
    with pytest.raises(UsageError, match="no user with 99 choices"):
        in_memory(pairs, {"heads": trained}, fixed=99)


def test_fewer_than_no_choices_are_refused(pairs, trained):
    with pytest.raises(UsageError, match="-3 choices; expected 0 or more"):
        in_memory(pairs, {"heads": trained}, shots=[5, -3])


def test_models_gain_over_bradley_terry_of_the_same_vectors(pairs, trained):
    history = {}
    for pair in pairs.history:
        if pair.user_id not in USERS[:4]:
            choice = Choice(question=pair.text, chosen=pair.chosen, rejected=pair.rejected)
            history.setdefault(pair.user_id, []).append(choice)
    plain = fit("bradley-terry", history, ["style"], default_session(), Settings())
    other = fit("bradley-terry", {"u9": history["u9"]}, ["style"], default_session(), Settings())
    found = in_memory(
        pairs, {"heads": trained, "plain": plain, "elsewhere": other}, shots=(0, 16), fixed=16,
        repeats=1,
    )  # fmt: skip
    assert found.summary.references == {"heads": "plain"}
    by = {(p.model, p.group, p.shots): p for p in found.points}
    ours, theirs = by["heads", "all", 16], by["plain", "all", 16]
    gain = ours.gain_over_reference.value
    assert gain == pytest.approx(ours.accuracy.value - theirs.accuracy.value)
    assert gain > 0.2
    assert ours.p_gain_over_reference < 0.05
    assert ours.p_gain_over_reference_holm == ours.p_gain_over_reference, "one in its family"
    assert theirs.gain_over_reference is None
    assert by["plain", "all", 0].accuracy == by["plain", "all", "all"].accuracy, "nothing to adapt"


def test_baselines_read_no_choice(pairs, trained):
    longest = evaluate(pairs, "longest", "none", root=None).verdicts.values
    others = majority_of_others(pairs)
    found = in_memory(
        pairs, {"heads": trained}, shots=(0,), fixed=16, whole=False,
        baselines={"longest": longest, "the others": others},
    )  # fmt: skip
    blind = {p.model: p for p in found.points if p.shots is None and p.group == "all"}
    assert blind["longest"].accuracy.value == pytest.approx(float(np.mean(longest)))
    assert blind["longest"].mirrored_accuracy.value == 0.5
    assert blind["the others"].accuracy.value == pytest.approx(float(np.nanmean(others)))
    assert blind["the others"].mirrored_accuracy is None, "it has read the couple's own votes"
    assert {p.group for p in found.points if p.shots is None} == {"all", "trained", "held_out"}


def test_a_folder_and_a_scorer_object_give_the_same_curve(pairs, trained, points, tmp_path):
    trained.save(tmp_path)
    how = {"shots": (2,), "repeats": 3, "fixed": 16, "whole": False}
    of_folder = in_memory(pairs, tmp_path, baselines=["longest"], **how)
    scorer = build_scorer(f"personal:{tmp_path}", default_session())
    of_object = in_memory(pairs, {"heads": scorer}, **how)
    two = [one for one in points if one.shots == 2]
    assert list(of_object.points) == two
    blind, *others = of_folder.points[2:]
    assert blind.model == "longest"
    assert [one.model_copy(update={"model": "heads"}) for one in others] == two


def test_what_keeps_no_states_is_no_model(pairs):
    with pytest.raises(UsageError, match="model m: Longest does not score by users' states"):
        in_memory(pairs, {"m": build_scorer("longest", default_session())})
    with pytest.raises(UsageError, match="no model; name a folder"):
        in_memory(pairs, [])


def test_opposite_votes_are_coupled_where_rows_do_not_say_so():
    uncoupled = (pair.model_copy(update={"mirror_of": None}) for pair in rows())
    bare = Dataset("moods", tuple(uncoupled)).select()
    assert not bare.couples
    how = {"variance": 1.0}
    model = fit("user-heads", {"u0": [TEA]}, ["style"], default_session(), Settings(), options=how)
    (point, *_) = in_memory(bare, {"m": model}, shots=(0,), fixed=16, whole=False).points
    assert point.mirrored_accuracy.value == 0.5
    assert point.mirrored_accuracy.n == len(mirrors(bare).couples)


TEA = Choice(question="tea?", chosen="yes", rejected="no, no, no")


def test_a_response_too_long_for_an_embedder_leaves_its_pair_out_of_every_model(
    pairs, trained, monkeypatch
):
    long = pairs.pairs[0].chosen
    plain = Features.table

    def table(self, items, progress=None):
        found = plain(self, items, progress).copy()
        found[[item.response == long for item in items]] = np.nan
        return found

    monkeypatch.setattr(Features, "table", table)
    found = in_memory(pairs, {"heads": trained}, shots=(0,), fixed=1)
    lost = sum(long in (pair.chosen, pair.rejected) for pair in pairs.pairs)
    assert found.summary.pairs_left_out == lost > 0
    assert found.points[0].n_pairs == len(pairs.pairs) - lost
    assert found.summary.choices_left_out == sum(
        long in (p.chosen, p.rejected) for p in pairs.history
    )
    assert f"{lost:,} pairs left out" in "\n".join(curve_tables(found)[0].notes)


def test_curves_are_a_result_that_is_read_back_and_not_computed_twice(
    pairs, trained, tmp_path, monkeypatch
):
    how = {"shots": (0, 2), "repeats": 2, "fixed": 16, "baselines": ["longest"]}
    curve = learning_curve(pairs, {"heads": trained}, root=tmp_path, **how)
    assert curve.folder.parent == tmp_path / pairs.name / "learning-curve"
    assert load(curve.folder) == curve
    assert [one.kind for one in load_all(tmp_path)] == ["learning-curve", "run"]
    before = {file.name: file.read_bytes() for file in curve.folder.iterdir()}
    monkeypatch.setattr(UserHeads, "adapt", lambda *given, **named: pytest.fail("computed again"))
    assert learning_curve(pairs, {"heads": trained}, root=tmp_path, **how) == curve
    assert {file.name: file.read_bytes() for file in curve.folder.iterdir()} == before


def test_a_row_has_a_credit_for_every_column(pairs, trained, points):
    curve = in_memory(
        pairs, {"heads": trained}, shots=(0, 2, 16), repeats=3, fixed=16, baselines=["longest"]
    )
    cells = [cell.scorer for cell in curve.summary.cells]
    named = [(cells[column.cell], column.setting) for column in curve.summary.columns]
    counts = (0, 2, 16, "all")
    assert named == [
        ("longest", "nothing of the user"),
        *(("heads", f"{k} choices") for k in counts),
    ]
    columns = [("longest", None), *(("heads", k) for k in counts)]
    by = {(one.model, one.shots): one for one in curve.points if one.group == "all"}
    for k, column in enumerate(columns):
        assert by[column].accuracy.value == pytest.approx(float(curve.values[:, k].mean()))
    assert [row.id for row in curve.rows] == [pair.id for pair in pairs.pairs]


def test_a_curve_prints_itself(pairs, trained):
    curve = in_memory(pairs, {"heads": trained}, shots=(0, 2), repeats=1, fixed=16)
    assert "accuracy on mirrored couples" in str(curve)
    assert curve.document()["kind"] == "learning-curve"


def test_texts_that_differ_in_white_space_alone_make_rows_depend():
    texts = {"text": "Tea or milk?", "chosen": "Green tea.", "rejected": "Warm milk."}
    spaced = {name: f"  {text.replace(' ', chr(10))} " for name, text in texts.items()}
    either = [
        PreferencePair(id=name, user_id=name, **fields)
        for name, fields in (("ann", texts), ("bob", spaced))
    ]
    clusters = PairUnits(either, []).counted.clusters
    assert clusters.questions.tolist() == [0, 0]
    assert [len({*side.tolist()}) for side in clusters.texts] == [1, 1]
