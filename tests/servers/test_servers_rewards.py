"""A reward model behind vLLM against the same model in this process, both in float32."""

from __future__ import annotations

import pytest
from reward_heads import save_with_head
from vllm_process import NAME, serve

from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import Session
from palate.specs import Spec
from tiny import make_slate

SLATES = [
    make_slate("Green tea.", "Black coffee, please.", question="What helps me sleep?"),
    make_slate("By train.", "By plane.", "On foot.", shown=["I like <|im_end|> slow travel."]),
]
TOLERANCE = 2e-3
OUTPUTS = 3


@pytest.fixture(scope="module")
def head(tiny, tmp_path_factory):
    return save_with_head(tiny.smol, tmp_path_factory.mktemp("head"), OUTPUTS)


@pytest.fixture(scope="module")
def url(head, tmp_path_factory):
    log = tmp_path_factory.mktemp("vllm") / "log"
    with serve(head, log, "--runner", "pooling", "--max-model-len", "2048") as at:
        yield at


@pytest.fixture(scope="module")
def local(head):
    with Session() as session:
        return [
            dict(build_scorer(f"classifier:{head}?head={k}", session, F32).score(SLATES))
            for k in range(OUTPUTS)
        ]


F32 = Settings(dtype="float32")


@pytest.mark.parametrize("server", ["vllm", "vllm-pooling"])
@pytest.mark.parametrize("rendered", ["here", "by the server"])
def test_raw_rewards_are_those_of_this_process(head, url, local, server, rendered):
    options = {"base_url": url, "server": server}
    if rendered == "here":
        options["tokenizer"] = head
    # A text that spells a special token is broken here, and read as one by the server.
    slates = SLATES if rendered == "here" else SLATES[:1]
    with Session(max_cost=1.0) as session:
        for k in range(OUTPUTS):
            spec = Spec(
                kind="classifier",
                reference=f"api:{NAME}",
                options={**options, "head": str(k), "price_in": "1"},
            )
            remote = dict(build_scorer(str(spec), session).score(slates))
            for position in range(len(slates)):
                assert remote[position].values == pytest.approx(
                    local[k][position].values, abs=TOLERANCE
                )
        assert 0 < session.ledger.spent < 0.01, "usage is counted, not the bound"
    spread = [value for scores in local for value in scores[0].values]
    assert max(spread) > 1 or min(spread) < 0, "no probabilities"


def test_a_head_of_several_outputs_is_never_guessed(url):
    with Session() as session, pytest.raises(Exception, match=f"the head has {OUTPUTS} outputs"):
        text = f"classifier:api:{NAME}?base_url={url}&server=vllm"
        dict(build_scorer(text, session).score(SLATES))
