"""Rows of several prompts, their other next tokens, and rows put together, against a plain loop."""

from __future__ import annotations

import pytest
import torch
import transformers
from test_engines_sampling import prompt

from palate.engines import LocalModel, Reader
from palate.engines.local_decoding import Member, ModelEnsemble
from palate.engines.local_rows import KVRows, begin_rows
from palate.records import Settings
from palate.specs import Reference
from tiny import KINDS


@pytest.fixture(params=KINDS)
def both(request, tiny):
    folder = tiny.of(KINDS[request.param])
    local = LocalModel(Reader(Reference.parse(folder), Settings()), "causal")
    plain = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def distributions(sequences):
        with torch.inference_mode():
            rows = [plain(torch.tensor([list(ids)])).logits[0, -1] for ids in sequences]
        return torch.log_softmax(torch.stack(rows), dim=-1)

    return local, distributions


def close(made, expected):
    assert made.shape == expected.shape
    assert float((made.cpu() - expected.cpu()).abs().max()) <= 1e-4


@torch.inference_mode()
def of(head, looked):
    return head.distributions(looked.flatten(0, 1))


def test_rows_of_prompts_of_unlike_length_look_take_and_join(both):
    local, distributions = both
    ids, head = prompt(local), local.head
    prompts, owners = [ids, ids[:37], ids[5:60]], [0, 0, 1, 2, 2]
    rows = begin_rows(local, [prompts[owner] for owner in owners], 12, logits=not head.apart)
    held = [list(prompts[owner]) for owner in owners]
    for step in range(3):
        close(rows.each(head.distributions), distributions(held))
        tokens = [(31 * step + 7 * k) % 900 + 3 for k in range(len(held))]
        rows.advance(tokens)
        held = [[*row, token] for row, token in zip(held, tokens, strict=True)]
    other = [[(13 * k + 5 * j) % 900 + 3 for j in range(4)] for k in range(len(held))]
    looked = rows.look(other)
    expected = [[*row, token] for row, four in zip(held, other, strict=True) for token in four]
    close(of(head, looked), distributions(expected))
    which = [3, 0, 2, 1, 1]
    rows.take(which)
    held = [[*row, four[j]] for row, four, j in zip(held, other, which, strict=True)]
    close(rows.each(head.distributions), distributions(held))
    more = rows.of([0, 0, 2, 4])
    some = [held[k] for k in (0, 0, 2, 4)]
    more.advance([9, 10, 11, 12])
    some = [[*row, token] for row, token in zip(some, (9, 10, 11, 12), strict=True)]
    rows.advance([20, 21, 22, 23, 24])
    held = [[*row, token] for row, token in zip(held, range(20, 25), strict=True)]
    joined = KVRows.join([(rows, [1, 3]), (more, [3, 0])])
    both_held = [held[1], held[3], some[3], some[0]]
    close(joined.each(head.distributions), distributions(both_held))
    joined.advance([40, 41, 42, 43])
    both_held = [[*row, token] for row, token in zip(both_held, range(40, 44), strict=True)]
    close(joined.each(head.distributions), distributions(both_held))


def test_other_tokens_right_behind_the_prompt(both):
    local, distributions = both
    ids, head = prompt(local), local.head
    rows = begin_rows(local, [ids, ids[:20]], 4, logits=not head.apart)
    looked = rows.look([[5, 6, 7], [8, 9, 10]])
    held = [[*ids, t] for t in (5, 6, 7)] + [[*ids[:20], t] for t in (8, 9, 10)]
    close(of(head, looked), distributions(held))
    rows.take([2, 1])
    close(rows.each(head.distributions), distributions([held[2], held[4]]))
    rows.advance([50, 51])
    close(rows.each(head.distributions), distributions([[*held[2], 50], [*held[4], 51]]))


def test_rows_forget_their_last_tokens_and_go_on_otherwise(both):
    local, distributions = both
    ids, head = prompt(local), local.head
    rows = begin_rows(local, [ids, ids[:20]], 6, logits=not head.apart)
    for token in (5, 6, 7):
        rows.advance([token, token + 1])
    rows = rows.of([1, 0, 0])
    rows.back(2)
    rows.advance([9, 10, 11])
    held = [[*ids[:20], 6, 9], [*ids, 5, 10], [*ids, 5, 11]]
    close(rows.each(head.distributions), distributions(held))
    rows.advance([12, 13, 14])
    held = [[*row, token] for row, token in zip(held, (12, 13, 14), strict=True)]
    close(rows.each(head.distributions), distributions(held))


def test_what_members_read_alike_is_read_once_where_rows_are_copied(both):
    local, distributions = both
    ids = prompt(local)
    prompts = [[ids, ids[:20]], [ids, ids[5:30]]]
    members = ModelEnsemble([Member(local, each) for each in prompts], 4)
    members.advance([7, 8])
    some = members.of([1, 0, 1])
    some.advance([9, 10, 11])
    members.back(1)
    members.advance([12, 13])
    (shared,) = some._shared
    assert len(shared.rows) == 5
    behind = [[8, 9], [7, 10], [8, 11]]
    for made, each in zip(some.log_probabilities(), prompts, strict=True):
        rows = [[*each[row], *behind[at]] for at, row in enumerate((1, 0, 1))]
        close(made, distributions(rows))
    for made, each in zip(members.log_probabilities(), prompts, strict=True):
        close(made, distributions([[*each[0], 12], [*each[1], 13]]))


def test_a_prompt_keeps_the_output_of_its_last_token_alone(tiny):
    local = LocalModel(Reader(Reference.parse(tiny.model()), Settings()), "causal")
    (read,) = begin_rows(local, [prompt(local)], 4, logits=True).read
    assert read.last.untyped_storage().nbytes() == read.last.nbytes
