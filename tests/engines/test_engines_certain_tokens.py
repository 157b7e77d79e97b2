"""Log-probabilities that a server gives behind its sampler: of tokens alone in the nucleus, 0."""

from __future__ import annotations

import pytest

from palate.engines.endpoints.prompt_logprobs import CERTAIN, READ
from palate.engines.http import UnusableReply


def reply(form, ids, values):
    if form == "echo":
        logprobs = {"token_logprobs": [None, *values]}
        return {"choices": [{"text": "", "finish_reason": "length", "logprobs": logprobs}]}
    listed = [None, *({str(k): {"logprob": v}} for k, v in zip(ids[1:], values, strict=True))]
    return {"choices": [{"text": "", "finish_reason": "length", "prompt_logprobs": listed}]}


@pytest.mark.parametrize("form", READ)
@pytest.mark.parametrize(
    ("zeros", "others", "refused"),
    [
        (CERTAIN, 1, True),
        (CERTAIN, CERTAIN - 1, True),
        (CERTAIN, CERTAIN, False),
        (CERTAIN - 1, 0, False),
    ],
)
def test_a_response_of_certain_tokens_alone_is_no_models(form, zeros, others, refused):
    values = [0.0] * zeros + [-1.5] * others
    ids = list(range(len(values) + 1))
    completion = reply(form, ids, values)
    if refused:
        with pytest.raises(UnusableReply, match="exactly 0, as behind a sampler"):
            READ[form](completion, ids, 1)
    else:
        assert READ[form](completion, ids, 1) == tuple(values)
