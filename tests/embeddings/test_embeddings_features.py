"""Items to vectors: each computed once, side by side, refused where they are not the model's."""

from __future__ import annotations

import numpy as np
import pytest

from endpoints import Loopback
from palate.embeddings import build_features, plain_item
from palate.embeddings.style import style_of
from palate.engines import LocalModel
from palate.errors import EngineError, SpecError
from palate.records import Message, Settings
from palate.session import default_session
from palate.specs import Reference

ITEMS = [
    plain_item((Message(role="user", content="Tea or coffee?"),), text)
    for text in ("tea", "coffee, black", "tea")
]
EXACT = Settings(dtype="float32")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))


def test_the_last_hidden_state_is_the_models_own(tiny):
    folder = tiny.model()
    features = build_features([folder], default_session(), EXACT)
    found = features.table(ITEMS)
    local = LocalModel(Reference.parse(folder), "causal", EXACT)
    reader = features.sources[0].reader
    for item, vector in zip(ITEMS, found, strict=True):
        ids = reader.template.conversation(item.question, item.response)
        plain = local.model.base_model(input_ids=local.torch.tensor([list(ids)]))
        own = plain.last_hidden_state[0, -1].detach().numpy()
        assert vector == pytest.approx(own, rel=2e-3, abs=2e-3), "float16 on disk"


def test_a_vector_is_computed_once(tiny, monkeypatch):
    folder = tiny.model()
    features = build_features([folder], default_session(), EXACT)
    assert features.fill(ITEMS) == 2, "one text stands twice"
    again = build_features([folder], default_session(), EXACT)
    monkeypatch.setattr(LocalModel, "hidden", lambda *given, **named: pytest.fail("computed again"))
    assert again.fill(ITEMS) == 0
    assert np.array_equal(again.table(ITEMS)[0], again.table(ITEMS)[2])


def test_sources_stand_side_by_side_and_style_needs_no_model(tiny):
    features = build_features([tiny.model(), "style"], default_session(), EXACT)
    table = features.table(ITEMS)
    assert table.shape == (3, features.width) == (3, sum(features.widths))
    assert np.array_equal(table[0, -16:], style_of("tea"))
    assert features.prompts(ITEMS).shape == table.shape


def test_precision_is_part_of_where_vectors_are_kept_and_not_of_what_they_mean(tiny):
    exact, coarse = (
        build_features([tiny.model()], default_session(), Settings(dtype=dtype))
        for dtype in ("float32", "bfloat16")
    )
    assert exact.meaning == coarse.meaning
    assert exact.fingerprint != coarse.fingerprint


def test_what_is_too_long_for_the_model_has_no_vector(tiny):
    long = plain_item((Message(role="user", content="Tea?"),), "tea " * 3000)
    table = build_features([tiny.model()], default_session(), EXACT).table([ITEMS[0], long])
    assert np.isfinite(table[0]).all()
    assert np.isnan(table[1]).all()


def test_an_endpoint_gives_vectors_in_the_order_of_the_texts():
    def answer(path, body):
        assert path.endswith("/embeddings")
        rows = [{"index": k, "embedding": [len(t), 1.0]} for k, t in enumerate(body["input"])]
        return 200, {"data": rows[::-1]}

    with Loopback(answer) as server:
        features = build_features([f"api:m?base_url={server.url}/v1"], default_session(), EXACT)
        assert features.width == 2
        assert features.table(ITEMS)[:, 0].tolist() == [3.0, 13.0, 3.0]


def test_an_endpoint_that_leaves_a_text_out_is_an_error():
    with (
        Loopback(lambda path, body: (200, {"data": []})) as server,
        pytest.raises(EngineError, match="no embedding for"),
    ):
        spec = f"api:m?base_url={server.url}/v1&retries=0"
        build_features([spec], default_session(), EXACT).table(ITEMS)


def test_no_embedder_is_said():
    with pytest.raises(SpecError, match="--embedder"):
        build_features([], default_session(), EXACT)
