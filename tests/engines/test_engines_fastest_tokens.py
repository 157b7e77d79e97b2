"""How many tokens at a time a card reads: tried once, kept, and no part of what a run is.

The card is a fake one: a model's `read` takes the time that a clock is told.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
import torch

from palate import session as sessions
from palate.engines import fastest_tokens
from palate.engines.local_forward import as_it_fits
from palate.evaluation import BoundScorer, Work
from palate.models import choose_tokens
from palate.records import Settings
from palate.session import Session
from palate.specs import Reference

GIB = 2**30


class Card:
    """What `fastest_tokens` asks of a model, and a clock that goes with what is read."""

    device, reference, window = "cuda", "a model", None

    def __init__(self, seconds_for, fits=2**30, budget=4096):
        self.seconds_for, self.fits, self.budget, self.now = seconds_for, fits, budget, 0.0
        self.read_at: list[int] = []
        words = SimpleNamespace(weight=torch.empty(1000, 2))
        self.model = SimpleNamespace(get_input_embeddings=lambda: words)
        self.torch = SimpleNamespace(
            accelerator=SimpleNamespace(empty_cache=lambda: None), device=torch.device
        )

    def clock(self):
        return self.now

    def memory(self, longest):
        return self.budget * 100_000

    def read(self, groups, reduce):
        (spans,) = groups
        firsts = [tuple(span.ids[:16]) for span in spans]
        assert len(set(firsts)) == len(firsts), "nothing of them is shared"

        def work():
            if self.budget > self.fits:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")
            self.read_at.append(self.budget)
            self.now += self.seconds_for(sum(len(span.ids) for span in spans))

        as_it_fits(self, work)
        yield 0, [reduce(torch.zeros(1, 2), torch.zeros(1)) for _ in spans]


def test_the_fewest_tokens_of_nearly_the_best_rate_are_taken():
    # 4 ms for launches and 1 µs a token: the rate at 32,768 is 0.94 of that at 65,536.
    card = Card(lambda tokens: 0.004 + 1e-6 * tokens)
    assert fastest_tokens(card, 100 * GIB, card.clock) == (65_536, True)
    assert sorted(set(card.read_at)) == [4096 * 2**k for k in range(5)]
    flat = Card(lambda tokens: 1e-6 * tokens)
    assert fastest_tokens(flat, 100 * GIB, flat.clock) == (4096, True)
    peak = Card(lambda tokens: 1e-6 * tokens * (1 if tokens > 16_000 else 2))
    assert fastest_tokens(peak, 100 * GIB, peak.clock) == (16_384, True)


def test_a_slow_model_is_tried_for_a_second_or_so():
    slow = Card(lambda tokens: 0.3 + 5e-5 * tokens)
    assert fastest_tokens(slow, 100 * GIB, slow.clock) == (4096, True)
    assert slow.now < 2 and slow.read_at == [4096, 4096]


def test_what_memory_does_not_hold_is_not_tried():
    card = Card(lambda tokens: 0.002 + 1e-6 * tokens)
    assert fastest_tokens(card, 2 * 16_384 * 100_000, card.clock) == (16_384, False)
    assert max(card.read_at) == 16_384


@pytest.mark.parametrize("fits", [20_000, 3000])
def test_out_of_memory_halves_and_says_so(fits, caplog):
    card = Card(lambda tokens: 0.002 + 1e-6 * tokens, fits)
    with caplog.at_level(logging.WARNING, "palate"):
        chosen, whole = fastest_tokens(card, 100 * GIB, card.clock)
    assert not whole and chosen == {20_000: 16_384, 3000: 2048}[fits]
    assert f"out of memory; going on with {chosen} tokens at a time" in caplog.messages[-1]


def test_a_model_that_cannot_be_read_so_keeps_what_it_had(caplog):
    card = Card(lambda tokens: 1 / 0)
    with caplog.at_level(logging.WARNING, "palate"):
        assert fastest_tokens(card, 100 * GIB, card.clock) == (4096, False)
    why = "4096 tokens at a time could not be tried (division by zero)"
    assert caplog.messages == [f"a model: {why}"]


def on_a_card(monkeypatch, name="NVIDIA Fake", *, whole=True):
    """Let a processor pass as a card where tokens at a time are chosen."""
    tried = []

    def trial(model, free):
        tried.append(model.reference)
        return 8192 * len(tried), whole

    monkeypatch.setattr(
        sessions, "choose_tokens", lambda given, device: choose_tokens(given, "cuda")
    )
    monkeypatch.setattr(sessions, "fastest_tokens", trial)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    return tried


def test_a_card_is_asked_once_for_each_content_dtype_and_name(tiny, tmp_path, monkeypatch):
    tried = on_a_card(monkeypatch)
    reference = Reference.parse(tiny.model())

    def model(**told):
        return Session(store=tmp_path).model(reference, "causal", Settings(device="cpu", **told))

    first, again = model(), model()
    assert first.budget == again.budget == 8192
    note = "8192 tokens at a time are the fastest tried on NVIDIA Fake"
    assert first.notes[-1] == again.notes[-1] == note
    assert model(dtype="bfloat16").budget == 16_384
    assert model(batch_tokens=100).budget == 100
    assert len(tried) == 2
    on_a_card(monkeypatch, "another")
    assert model().budget == 8192 and "another" in model().notes[-1]


def test_what_a_full_card_left_room_for_is_tried_again(tiny, tmp_path, monkeypatch):
    tried = on_a_card(monkeypatch, whole=False)
    reference = Reference.parse(tiny.model())
    budgets = [
        Session(store=tmp_path).model(reference, "causal", Settings(device="cpu")).budget
        for _ in range(2)
    ]
    assert budgets == [8192, 16_384] and len(tried) == 2


def identity(pairs, spec, settings, tmp_path):
    work = Work.of(Session(store=tmp_path), settings)
    job = BoundScorer.of(spec, pairs, "none", work)
    manifest = job.manifest("run", job.computation(job.rows), {"rows": pairs.content_hash})
    return manifest.identity["batch_tokens"], [it.get("batch_tokens") for it in manifest.details]


def test_a_run_on_a_card_says_that_the_card_chose(tiny, tmp_path, monkeypatch):
    from palate.benchmarks import load_benchmark
    from palate.engines import reader

    pairs, spec = load_benchmark("tasting"), f"likelihood:{tiny.model()}"
    assert identity(pairs, spec, Settings(), tmp_path) == (4096, [4096])
    assert identity(pairs, spec, Settings(batch_tokens=9), tmp_path) == (9, [9])
    assert identity(pairs, "longest", Settings(), tmp_path) == (4096, [None])
    monkeypatch.setattr(reader, "choose_device", lambda device: "cuda:0")
    assert identity(pairs, spec, Settings(), tmp_path) == (None, [None])
    assert identity(pairs, spec, Settings(batch_tokens=9), tmp_path) == (9, [9])
    both = f"implicit:{tiny.model()}?reference=none"
    assert identity(pairs, both, Settings(), tmp_path)[0] is None
    assert identity(pairs, "longest", Settings(), tmp_path) == (4096, [None])
