"""palate's own clients of reward servers get a classifier's numbers from palate's own server."""

from __future__ import annotations

import shutil

import pytest
from serving import Served, rows
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

import palate
from palate.engines import ChatTemplate
from palate.errors import EndpointError
from palate.prompts import render
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import Session, default_session
from tiny import BOS, EOS, make_slate

FLOAT32 = Settings(dtype="float32", device="cpu")
SLATES = [
    make_slate("Green tea.", "Black coffee, please.", question="What helps me sleep?"),
    make_slate("By train.", "By plane.", "On foot.", shown=["I like <|im_end|> slow travel."]),
]
CLIENTS = ["vllm", "vllm-pooling", "openrlhf", "tei"]


BARE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
FRAMED = "{{ bos_token }}" + BARE + "{{ eos_token }}"
MODELS = {
    "nobody writes BOS": (None, False), "the template does": (FRAMED, False),
    "the tokenizer does": (BARE, True), "both do": (FRAMED, True),
}  # fmt: skip


def model(tiny, root, name):
    template, frames = MODELS[name]
    folder = tiny.model("LlamaForSequenceClassification", template, num_labels=1)
    if not frames:
        return folder
    framing = shutil.copytree(folder, root / "framing")
    tokenizer = Tokenizer.from_file(str(framing / "tokenizer.json"))
    special = [("<|im_start|>", BOS), ("<|im_end|>", EOS)]
    tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A <|im_end|>", special_tokens=special
    )
    tokenizer.save(str(framing / "tokenizer.json"))
    return str(framing)


@pytest.fixture(scope="module", params=MODELS)
def served(request, tiny, tmp_path_factory):
    folder = model(tiny, tmp_path_factory.mktemp("framed"), request.param)
    scorer = build_scorer(f"classifier:{folder}", default_session(), FLOAT32)
    with Served(lambda: palate.reward(scorer, "none", benchmark=rows())) as server:
        yield server, folder, scorer


def client(server, folder, name, session=None, key_env=""):
    known = "" if name.startswith("vllm") else f"&tokenizer={folder}"
    spec = f"classifier:api:rm?base_url={server.url}&server={name}{known}&retries=0{key_env}"
    return build_scorer(spec, session or Session(), Settings())


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_gets_the_numbers_of_the_scorer_in_this_process(served, name):
    server, folder, scorer = served
    expected = dict(scorer.score(SLATES))
    replied = dict(client(server, folder, name).score(SLATES))
    for k, scores in expected.items():
        assert replied[k].reasons in ((), (None,) * len(scores.values)), replied[k].reasons
        assert replied[k].values == pytest.approx(scores.values, abs=1e-4)
    assert len({value for scores in expected.values() for value in scores.values}) == 5


def test_a_rendered_conversation_is_read_as_the_template_writes_it(served):
    scorer = served[2]
    template: ChatTemplate = scorer.local.template
    framed = template.tokenizer("a")["input_ids"][0] == BOS
    for slate in SLATES:
        messages = render(slate.question, slate.shown)
        for text in slate.candidates:
            like = template.conversation(messages, "Other.")
            written = template.closed_text(messages, text)
            expected = template.conversation(messages, text)
            assert template.rendered(written, like) == expected
            if framed:  # then whoever renders leaves it to the server
                bare = written.removeprefix("<|im_start|>").removesuffix("<|im_end|>")
                assert template.rendered(bare, like) == expected


def test_a_text_over_the_window_is_unscored_with_its_reason(tiny):
    folder = tiny.classifier()
    scorer = build_scorer(f"classifier:{folder}", default_session(), FLOAT32)
    with Served(lambda: palate.reward(scorer)) as server:
        status, reply = server.post("/predict", {"inputs": [["a"], ["tea " * 3000]]})
    assert (status, reply) == (422, {"detail": "inputs[1]: unscored: too long"})


def test_a_client_without_the_token_is_told_so(tiny, monkeypatch):
    from palate.serve.app import ServeSettings

    folder = tiny.classifier()
    scorer = build_scorer(f"classifier:{folder}", default_session(), FLOAT32)
    with Served(lambda: palate.reward(scorer), ServeSettings(key="right-key")) as server:
        monkeypatch.setenv("MINE", "wrong-key")
        with pytest.raises(EndpointError, match="401"):
            list(client(server, folder, "vllm", key_env="&key_env=MINE").score(SLATES))
        monkeypatch.setenv("MINE", "right-key")
        scored = dict(client(server, folder, "vllm", key_env="&key_env=MINE").score(SLATES))
    assert all(value is not None for scores in scored.values() for value in scores.values)
