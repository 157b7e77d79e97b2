"""A reward model of one output at vLLM's /score against the same in this process, in float32."""

from __future__ import annotations

import pytest
from reward_heads import save_with_head
from vllm_process import NAME, serve

from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import Session
from tiny import make_slate

F32 = Settings(dtype="float32")
TOLERANCE = 2e-3
SLATES = [
    make_slate("Green tea.", "Black coffee, please.", question="What helps me sleep?"),
    make_slate("\nBy train.", "By plane.", "On foot.", shown=["I like <|im_end|> slow travel."]),
    make_slate("A response that stands alone.", shown=["I like short lists."]),
]


@pytest.fixture(scope="module")
def head(tiny, tmp_path_factory):
    return save_with_head(tiny.smol, tmp_path_factory.mktemp("head"), 1)


@pytest.fixture(scope="module")
def url(head, tmp_path_factory):
    log = tmp_path_factory.mktemp("vllm") / "log"
    with serve(head, log, "--runner", "pooling", "--max-model-len", "2048") as at:
        yield at


def test_scores_are_the_rewards_of_this_process(head, url):
    spec = f"classifier:api:{NAME}?base_url={url}&server=vllm-score&tokenizer={head}&price_in=1"
    with Session(max_cost=1.0) as session:
        remote = dict(build_scorer(spec, session).score(SLATES))
        local = dict(build_scorer(f"classifier:{head}", session, F32).score(SLATES))
        assert 0 < session.ledger.spent < 0.01, "usage is counted, not the bound"
    for position in range(len(SLATES)):
        assert remote[position].reasons == ()
        assert remote[position].values == pytest.approx(local[position].values, abs=TOLERANCE)
    values = [value for scores in local.values() for value in scores.values]
    assert max(values) > 1 or min(values) < 0, "no probabilities"
