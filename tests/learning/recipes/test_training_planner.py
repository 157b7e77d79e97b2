"""A tiny random Llama is taught to write rubrics; what it learned is what the context reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairs import pair_of
from palate.benchmarks import load_benchmark
from palate.contexts import PlanContext, build_context
from palate.engines import ChatTemplate
from palate.errors import DataError, UsageError
from palate.learning.encoding import IGNORED
from palate.learning.fitting import Lora
from palate.learning.overlap import refuse_overlap
from palate.learning.planner import encode_plan, train_planner
from palate.models import import_torch, import_transformers, resolve
from palate.prompts import parse_plan, plan_prompt
from palate.records import Post, PreferencePair, RubricAspect, Settings, User, UserPool
from palate.session import default_session
from palate.specs import Reference, Spec
from tasks import task

FAST: dict[str, Any] = {"batch_pairs": 4, "device": "cpu", "dtype": "float32", "max_length": 600}


def row(k: int, user: str | None = None, **fields: Any) -> PreferencePair:
    user = user or f"u{k}"
    base = {
        "text": f"What shall I cook on day {k}?",
        "chosen": f"Soup {k}.",
        "rejected": f"Bread {k}.",
        "profile": tuple(Post(id=str(n), text=f"{user} wrote {n}") for n in range(2)),
        "rubric_aspects": (
            RubricAspect(aspect="Warm\nfood", reason="sentinel-reason", evidence="sentinel"),
            RubricAspect(aspect="No meat"),
        ),
        "narrative": "sentinel-narrative",
    }
    return pair_of(id=f"r{k}", user_id=user, **{**base, **fields})


def rows(n: int = 12) -> list[PreferencePair]:
    return [row(k) for k in range(n)]


SAME_POSTS = row(3, "x").profile
OVERLAPS = [
    (row(9, "u3"), "user 'u3' is in the bench too (row 'r3')"),
    (row(9, "x", text="What shall I cook on  DAY 3?", profile=row(3).profile[1:]),
     "its question, asked by somebody of the same profile, is in the bench too (row 'r3')"),
    (row(9, "x", profile=row(3).profile[::-1]), "its whole profile is in the bench too (row 'r3')"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "said"), OVERLAPS)
def test_people_of_a_benchmark_are_refused_by_name(bad: PreferencePair, said: str) -> None:
    with pytest.raises(DataError) as caught:
        refuse_overlap([row(7), bad, row(3)], rows(5), "the bench")
    assert str(caught.value).startswith(f"training row 'r9': {said}")
    assert "\n" not in str(caught.value)


def test_the_same_question_of_somebody_else_is_no_overlap() -> None:
    asked = row(9, "x", text=row(3).text)
    refuse_overlap([asked, row(8, profile=row(3).profile[:1])], rows(5), "the bench")
    bare = row(9, "x", text=row(3).text, profile=())
    refuse_overlap([bare], rows(5), "the bench")
    with pytest.raises(DataError, match="its question"):
        refuse_overlap([bare], [row(3, profile=())], "the bench")


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_the_guard_finds_every_shared_user(ours: set[int], theirs: set[int]) -> None:
    training, bench = [row(k) for k in sorted(ours)], [row(k) for k in sorted(theirs)]
    if ours & theirs:
        with pytest.raises(DataError, match=f"'r{min(ours & theirs)}': user"):
            refuse_overlap(training, bench, "b")
    else:
        refuse_overlap(training, bench, "b")


def test_overlap_is_refused_before_anything_is_loaded(tmp_path: Any) -> None:
    base = Reference.parse("./no-such-model")
    with pytest.raises(DataError, match="is in tasting too"):
        tasting = load_benchmark("tasting").pairs
        train_planner(task(tasting, base, tmp_path / "p", disjoint_from="tasting"))
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("some", "more", "said"),
    [
        ([], {}, "no pair to train on"),
        ([row(0, rubric_aspects=()), row(1, profile=())], {}, "none of 2 has rubric aspects"),
        ([row(0, tie=True)], {}, "undecided"),
        ([row(0)], {"leave_out": ["u0"]}, "1 users are left out"),
    ],
)
def test_where_there_is_nothing_to_learn_it_is_said(
    tmp_path: Any, some: list[PreferencePair], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(DataError, match=said):
        train_planner(task(some, Reference.parse("./none"), tmp_path / "p", **FAST, **more))


@pytest.mark.parametrize("wrong", [{"rank": 0}, {"alpha": 0}, {"dropout": 1.0}])
def test_impossible_adapters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="lora"):
        Lora(**wrong)


@pytest.fixture(scope="module")
def base(tiny: Any) -> Reference:
    return Reference.parse(tiny.model(pad_token_id=2))


@pytest.fixture(scope="module")
def template(base: Reference) -> ChatTemplate:
    tokenizer = import_transformers().AutoTokenizer.from_pretrained(resolve(base).path)
    return ChatTemplate(tokenizer)


@pytest.fixture(scope="module")
def trained(base: Reference, tmp_path_factory: Any) -> Any:
    folder = tmp_path_factory.mktemp("planner") / "p"
    some = [*rows(), row(90, rubric_aspects=()), row(91, profile=())]
    how = {"steps": 30, "learning_rate": 1e-2, "disjoint_from": "tasting", **FAST}
    return train_planner(task(some, base, folder, rank=32, **how))


class TestWithATinyModel:
    def test_what_is_learned_is_the_prompt_of_the_context_and_the_aspects(
        self, template: ChatTemplate
    ) -> None:
        pair = row(1)
        learned = encode_plan(pair, build_context("profile:10", default_session()), template, 2048)
        assert learned is not None
        decode = template.tokenizer.decode
        shown = (
            build_context("profile:10", default_session())
            .shown(pair.view, User(id="u1", posts=pair.profile), UserPool({}))
            .parts
        )
        prompt = template.prompt(plan_prompt(pair.text, shown))
        assert learned.ids[: learned.start] == prompt
        assert decode(learned.ids[learned.start :]).startswith("- Warm food\n- No meat<|im_end|>")
        assert "sentinel" not in decode(learned.ids)
        assert learned.labels[: learned.start] == [IGNORED] * learned.start
        assert tuple(learned.labels[learned.start :]) == learned.ids[learned.start :]

    def test_posts_make_room_for_the_aspects(self, template: ChatTemplate) -> None:
        posts = tuple(Post(id=str(k), text=f"post {k} " + "tea " * 60) for k in range(6))
        profile = build_context("profile:6", default_session())
        whole = encode_plan(row(1, profile=posts), profile, template, 10**6)
        cut = encode_plan(row(1, profile=posts), profile, template, 600)
        assert whole is not None and cut is not None
        assert cut.width <= 600 < whole.width
        assert cut.ids[cut.start :] == whole.ids[whole.start :]
        assert encode_plan(row(1, profile=posts), profile, template, 100) is None

    def test_the_folder_is_a_plain_model_that_says_what_it_is(
        self, trained: Any, base: Reference
    ) -> None:
        from safetensors.torch import load_file

        made, start = (
            load_file(folder / "model.safetensors")
            for folder in (trained.folder, resolve(base).path)
        )
        assert set(made) == set(start)
        assert not [name for name in made if "lora" in name]
        moved = {name for name, weight in made.items() if not weight.equal(start[name])}
        assert moved and all("proj" in name for name in moved)
        facts = json.loads((trained.folder / "palate.json").read_text())
        assert (facts["kind"], facts["n_pairs"], facts["reads"]) == ("planner", 12, "profile:10")
        assert facts["lora"] == {"rank": 32, "alpha": 32, "dropout": 0.05}
        assert list(facts["not_in"]) == ["tasting"]
        assert str(trained.folder.parent) not in json.dumps(facts)
        assert (trained.n_pairs, trained.n_seen, trained.n_without, trained.n_too_long) == (
            12, 12, 2, 0,
        )  # fmt: skip
        assert [file.name for file in trained.folder.parent.iterdir()] == ["p"]

    def test_pad_ends_no_turn(self, trained: Any) -> None:
        transformers = import_transformers()
        tokenizer = transformers.AutoTokenizer.from_pretrained(trained.folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(trained.folder)
        assert tokenizer.pad_token_id not in (tokenizer.eos_token_id, None)
        assert model.config.pad_token_id == tokenizer.pad_token_id
        assert model.generation_config.pad_token_id == tokenizer.pad_token_id
        assert model.get_input_embeddings().num_embeddings > tokenizer.pad_token_id

    def test_it_learns_and_the_merged_model_is_what_learned(
        self, trained: Any, base: Reference, template: ChatTemplate
    ) -> None:
        assert len(trained.losses) == 30
        assert sum(trained.losses[-5:]) / 5 < 0.5 * trained.losses[0]
        learned = encode_plan(
            row(1), build_context("profile:10", default_session()), template, 2048
        )
        assert learned is not None
        found = {name: self.loss(folder, learned) for name, folder in
                 (("start", resolve(base).path), ("made", trained.folder))}  # fmt: skip
        assert abs(found["start"] - trained.losses[0]) < 0.2 * trained.losses[0]
        assert found["made"] < 0.5 * found["start"]

    def loss(self, folder: Any, learned: Any) -> float:
        torch, transformers = import_torch(), import_transformers()
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        with torch.no_grad():
            ids, labels = torch.tensor([learned.ids]), torch.tensor([learned.labels])
            return float(model(input_ids=ids, labels=labels).loss)

    def test_it_is_a_planner(self, trained: Any, tmp_path: Any, monkeypatch: Any) -> None:
        monkeypatch.setenv("PALATE_CACHE", str(tmp_path))
        context = PlanContext(
            Spec.parse(f"plan:{trained.folder}?max_tokens=24"),
            default_session(),
            Settings(device="cpu", dtype="float32"),
        )
        pair = row(2)
        shown = context.shown(pair.view, User(id="u2", posts=pair.profile), UserPool({}))
        assert [part.kind for part in shown.parts] == ["plan"]
        assert parse_plan(shown.parts[0].text)[0].startswith("Warm")
