"""Products in float32 by oneDNN: the same numbers, gradients as before, chosen by the processor."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch

from palate.engines import local_kernels
from palate.engines.local_kernels import LEAST_ROWS, multiply_by_onednn, onednn_is_faster


def two_layers():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.Linear(30, 20, bias=False))


@pytest.mark.parametrize("rows", [1, LEAST_ROWS - 1, LEAST_ROWS, 33])
def test_layers_give_the_same_to_the_last_digits(rows):
    plain, fast = two_layers(), two_layers()
    multiply_by_onednn(fast)
    inputs = torch.randn(rows, 40)
    with torch.inference_mode():
        ours, theirs = fast(inputs), plain(inputs)
    assert torch.allclose(ours, theirs, atol=1e-5)
    if rows < LEAST_ROWS:
        assert torch.equal(ours, theirs)


def test_a_row_gets_the_same_bits_whatever_is_beside_it():
    fast = two_layers()
    multiply_by_onednn(fast)
    inputs = torch.randn(300, 40)
    with torch.inference_mode():
        whole = fast(inputs)
        for rows in (LEAST_ROWS, 17, 64, 299):
            assert torch.equal(fast(inputs[:rows]), whole[:rows])


@pytest.mark.parametrize("rows", [2, LEAST_ROWS, 50])
def test_compiled_layers_multiply_by_onednn_as_well(rows):
    fast, graphs = two_layers(), []
    multiply_by_onednn(fast)

    def keep(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return graph.forward

    inputs = torch.randn(rows, 40)
    torch._dynamo.reset()
    with torch.inference_mode():
        compiled = torch.compile(fast, backend=keep, dynamic=True)(inputs)
        assert torch.equal(compiled, fast(inputs))
    (graph,) = graphs
    assert sum("palate.product" in target for target in graph) == 2
    weight, bias = torch.randn(30, 40), torch.randn(30)
    product = torch.ops.palate.product.default
    torch.library.opcheck(product, (inputs, weight, bias), test_utils="test_faketensor")


def test_gradients_are_those_of_plain_layers():
    plain, fast = two_layers(), two_layers()
    multiply_by_onednn(fast)
    inputs = torch.randn(50, 40)
    for model in (plain, fast):
        model(inputs).square().sum().backward()
    for ours, theirs in zip(fast.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


def test_gradients_of_compiled_layers_are_those_of_plain_ones():
    plain, fast = two_layers(), two_layers()
    multiply_by_onednn(fast)
    inputs = torch.randn(50, 40)
    torch._dynamo.reset()
    for model in (plain, torch.compile(fast, backend="eager")):
        model(inputs).square().sum().backward()
    for ours, theirs in zip(fast.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


def test_a_layer_that_computes_otherwise_keeps_its_way():
    class Quantised(torch.nn.Parameter):
        pass

    model = torch.nn.Sequential(*two_layers(), torch.nn.Linear(20, 10))
    changed, quantised, _ = model
    usual = changed.forward
    changed.forward = lambda rows: usual(rows.round())
    quantised.weight = Quantised(quantised.weight.detach())
    multiply_by_onednn(model)
    assert [type(layer) is torch.nn.Linear for layer in model] == [True, True, False]
    half = two_layers().bfloat16()
    multiply_by_onednn(half)
    assert {*map(type, half)} == {torch.nn.Linear}


def test_other_numbers_than_float32_are_multiplied_as_by_plain_layers():
    plain, fast = two_layers(), two_layers()
    multiply_by_onednn(fast)
    inputs = torch.randn(50, 40)
    with torch.inference_mode():
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.allclose(fast(inputs).float(), plain(inputs).float(), atol=0.05)
            assert torch.equal(fast(inputs.bfloat16()), plain(inputs.bfloat16()))
        assert torch.equal(fast.double()(inputs.double()), plain.double()(inputs.double()))


def test_copies_and_what_is_let_go_are_as_of_plain_layers():
    fast = two_layers()
    multiply_by_onednn(fast)
    copied, inputs = copy.deepcopy(fast), torch.randn(50, 40)
    with torch.inference_mode():
        assert torch.equal(copied(inputs), fast(inputs))
        copied[0].weight.zero_()
        assert not torch.equal(copied(inputs), fast(inputs))
    weight = weakref.ref(fast[0].weight)
    gc.disable()
    try:
        del fast
        assert weight() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("kind", "intel", "limit", "chosen"),
    [
        ("AVX512", False, None, True),
        ("AVX512", True, None, False),
        ("AVX2", False, None, False),
        ("AVX512", False, "AVX2", False),
    ],
)
def test_it_is_chosen_where_mkl_leaves_registers_unused(
    monkeypatch, request, kind, intel, limit, chosen
):
    onednn_is_faster.cache_clear()
    request.addfinalizer(onednn_is_faster.cache_clear)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: kind)
    monkeypatch.setattr(local_kernels, "made_by_amd", lambda: not intel)
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    if limit is not None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert onednn_is_faster() == chosen


@pytest.mark.skipif(not onednn_is_faster(), reason="MKL is as fast here")
def test_a_models_numbers_are_mkls_to_the_last_digits(tiny, monkeypatch):
    from palate.engines import LocalModel, Reader, TokenSpan
    from palate.engines import local_model as models
    from palate.records import Settings
    from palate.specs import Reference

    def hidden():
        reader = Reader(Reference.parse(tiny.model()), Settings(dtype="float32"))
        local = LocalModel(reader, "causal")
        (states,) = [it for _, it in local.outputs([[TokenSpan(list(range(3, 90)), 0, 87)]])]
        return states[0]

    fast = hidden()
    monkeypatch.setattr(models, "onednn_is_faster", lambda: False)
    assert torch.allclose(fast, hidden(), atol=1e-4)
