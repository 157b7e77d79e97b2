"""On an accelerator the next load is under way before the results of the one before are waited for;
a fake one here says what happens when."""

from __future__ import annotations

import pytest
import torch
from plain_forward import DENSE, load

from palate.engines import TokenSpan, local_forward, local_kernels
from palate.engines.local_kernels import fetch, on_card

BUDGET = 128
GROUPS = [
    [
        TokenSpan([k % 500 + 3 for k in range(first, first + 90)], 80, 90),
        TokenSpan([7, 8, first], 1, 3),
    ]
    for first in range(0, 500, 50)
]


@pytest.fixture
def local(tiny):
    local, threads = load(tiny.model()), torch.get_num_threads()
    local.budget = BUDGET
    torch.set_num_threads(1)  # one load at a time, as on an accelerator
    yield local
    torch.set_num_threads(threads)


def fake(local, monkeypatch, ahead):
    """Let a model's results arrive later, as from an accelerator; what happens is written down."""
    events, fetched = [], []
    forward = local.model.base_model.forward

    def watched(*given, **named):
        events.append("forward")
        return forward(*given, **named)

    def fetch(tensors, device):
        number = len(fetched)
        fetched.append([it.clone() for it in tensors])
        events.append(f"copy {number}")

        def arrived():
            events.append(f"wait {number}")
            return fetched[number]

        return arrived

    monkeypatch.setattr(local.model.base_model, "forward", watched)
    monkeypatch.setattr(local_forward, "on_card", lambda device: ahead)
    monkeypatch.setattr(local_forward, "fetch", fetch)
    return events


@pytest.mark.parametrize("way", ["tree", "dense"])
def test_the_next_load_is_under_way_before_results_are_waited_for(local, monkeypatch, way):
    if way == "dense":
        local.read_mode = DENSE
    plain = dict(local.hidden(GROUPS))
    events = fake(local, monkeypatch, 1)
    ours = dict(local.hidden(GROUPS))
    assert ours.keys() == plain.keys() == set(range(len(GROUPS)))
    for k, of_group in plain.items():
        for a, b in zip(ours[k], of_group, strict=True):
            assert torch.equal(a, b)
    marks = [event for event in events if event != "forward"]
    n = sum(mark.startswith("copy") for mark in marks)
    assert n > 3
    expected = ["copy 0"]
    for k in range(1, n):
        expected += [f"copy {k}", f"wait {k - 1}"]
    assert marks == [*expected, f"wait {n - 1}"]
    # Between a load's copy and the wait for it, the next load's passes are given away.
    for k in range(n - 1):
        between = events[events.index(f"copy {k}") : events.index(f"wait {k}")]
        assert "forward" in between


def test_a_processor_waits_for_each_load_at_once(local, monkeypatch):
    assert not on_card(local.device)
    events = fake(local, monkeypatch, 0)
    list(local.hidden(GROUPS))
    marks = [event for event in events if event != "forward"]
    n = len(marks) // 2
    assert marks == [mark for k in range(n) for mark in (f"copy {k}", f"wait {k}")]


def test_what_stays_where_the_model_is_is_never_fetched(local, monkeypatch):
    events = fake(local, monkeypatch, 1)
    sequences = [span.ids for group in GROUPS for span in group]
    assert local.next_token_logits(sequences).shape[0] == len(sequences)
    list(local.outputs(GROUPS))
    assert set(events) == {"forward"}


def test_results_travel_as_one_copy_and_have_their_shapes_again(monkeypatch):
    events = []

    class Event:
        def record(self, stream):
            events.append(f"recorded on {stream}")

        def synchronize(self):
            events.append("waited for")

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"the stream of {device}")
    monkeypatch.setattr(local_kernels, "on_card", lambda device: True)
    tensors = [torch.randn(3, 5), torch.empty(0), torch.randn(2), torch.randn(1, 4)]
    arriving = fetch(tensors, "cuda")
    assert events == ["recorded on the stream of cpu"]  # where the tensors are
    for ours, theirs in zip(arriving(), tensors, strict=True):
        assert ours.shape == theirs.shape and torch.equal(ours, theirs)
    assert events[1:] == ["waited for"]
    assert fetch([], "cuda")() == []
