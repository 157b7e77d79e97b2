"""Compiled layers give the numbers of plain ones; where they cannot, the plain ones are read."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from plain_forward import load

from palate.engines import Reader, TokenSpan
from palate.engines.local_loading import HIDDEN_TOLERANCE
from palate.records import Settings
from palate.session import Session
from palate.specs import Reference

FOLDERS = "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"
PROCESS = """
import sys, torch
from palate.engines import LocalModel, Reader
from palate.records import Settings
from palate.specs import Reference
made = LocalModel(Reader(Reference.parse(sys.argv[1]), Settings(compile="on")), "causal")
print(made.notes, made.next_token_logits([[5, 6, 7, 8] * 20])[0, :4].tolist())
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of compilers, named by nobody."""
    for name in FOLDERS:
        monkeypatch.setenv(name, "to be put back")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "compiled"


def slates(*sizes: int) -> list[list[TokenSpan]]:
    """Return a slate of two for each length of its prompt, its wanted outputs the last tokens."""
    made = []
    for size in sizes:
        prompt = [(7 * k * k + size) % 900 for k in range(size)]
        ends = [[(k * size + j) % 900 for k in range(3 + j * size // 2)] for j in (1, 2)]
        made.append([TokenSpan([*prompt, *end], size, size + len(end)) for end in ends])
    return made


def hidden(local, groups):
    return [torch.cat(outputs) for _, outputs in sorted(local.hidden(groups))]


def graphs() -> int:
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def apart(ours, theirs) -> float:
    return max(float((a - b).norm() / b.norm()) for a, b in zip(ours, theirs, strict=True))


def failing(monkeypatch, compiled) -> None:
    monkeypatch.setattr(torch, "compile", lambda plain, **options: compiled(plain))


@pytest.mark.full
@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "Gemma3ForCausalLM"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_any_mix_of_lengths_gives_the_plain_numbers_by_the_same_compiled_code(
    tiny, architecture, dtype
):
    model = tiny.model(architecture)
    plain = load(model, dtype=dtype, batch_tokens=64)
    torch._dynamo.reset()
    local = load(model, dtype=dtype, batch_tokens=64, compile="on")
    assert (local.notes, plain.notes) == ([], [])
    assert local.read_mode.tree
    mixed, before = slates(1, 2, 16, 31, 32, 33, 64, 300), graphs()
    ours, theirs = hidden(local, mixed), hidden(plain, mixed)
    assert apart(ours, theirs) <= HIDDEN_TOLERANCE[dtype]
    assert dtype == "float32" or apart(ours, theirs) > 0, "nothing was read by compiled code"
    assert graphs() == before


@pytest.mark.full
def test_several_threads_read_by_compiled_code_at_once(tiny, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)  # so that loads are read side by side
    torch._dynamo.reset()
    model, groups = tiny.model(), slates(*range(20, 60))
    plain, both = hidden(load(model, dtype="bfloat16"), groups), {}
    with Session() as one, Session() as other:

        def read(session: Session) -> None:
            settings = Settings(compile="on", dtype="bfloat16")
            local = session.model(Reference.parse(model), "causal", settings)
            both[session] = local.notes, hidden(local, groups)

        threads = [threading.Thread(target=read, args=(it,)) for it in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [notes for notes, _ in both.values()] == [[], []]
        for _, outputs in both.values():
            assert 0 < apart(outputs, plain) <= HIDDEN_TOLERANCE["bfloat16"]


@pytest.mark.full
def test_two_processes_compile_into_one_folder(tiny, folder):
    words = [sys.executable, "-c", PROCESS, tiny.model()]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (it.communicate()[0] for it in running)
    assert first == second
    assert first.startswith("[] [")
    assert any(folder.rglob("*.so"))


@pytest.mark.full
def test_without_a_compiler_of_the_machine_layers_stay_as_they_are(tiny, folder):
    from torch._inductor import config

    torch._dynamo.reset()
    model = tiny.model()
    with config.patch({"cpp.cxx": ("no-such-compiler",)}):
        local = load(model, compile="on")
    (note,) = local.notes
    assert "its layers are not compiled (" in note
    assert "no-such-compiler" in note or "InvalidCxxCompiler" in note
    assert apart(hidden(local, slates(40)), hidden(load(model), slates(40))) == 0


def test_a_compiler_that_fails_is_said_once_and_changes_no_number(tiny, monkeypatch):
    def broken(plain):
        def forward(*args, **options):
            plain(*args, **options)  # fails behind the attention, which counts layers
            raise RuntimeError("no g++ here\nwhich a trace follows")

        return forward

    failing(monkeypatch, broken)
    model = tiny.model()
    with Session() as session:
        reader = session.reader(Reference.parse(model), Settings(compile="on"))
        local = session.model_of(reader, "causal")
        why = "its layers are not compiled (RuntimeError: no g++ here)"
        assert local.notes == [f"{model}: {why}"]
        assert session.of_loading(reader, "causal")[1:] == tuple(local.notes)
    groups = slates(1, 40, 70)
    assert apart(hidden(local, groups), hidden(load(model), groups)) == 0


def test_compiled_layers_that_give_other_numbers_are_not_read(tiny, monkeypatch):
    failing(monkeypatch, lambda plain: lambda *args, **options: 1.01 * plain(*args, **options))
    model = tiny.model()
    local = load(model, compile="on")
    (note,) = local.notes
    assert "its layers are not compiled (they change its outputs by 0.0" in note
    assert apart(hidden(local, slates(40)), hidden(load(model), slates(40))) == 0


def test_what_is_not_read_as_a_tree_is_not_compiled(tiny):
    local = load(tiny.model(), compile="on", attention="sdpa")
    why = "it is read in padded batches (attention=sdpa)"
    assert local.notes == [f"{local.reference}: its layers are not compiled ({why})"]


def test_folders_that_the_user_named_stay(tiny, monkeypatch):
    monkeypatch.setenv(FOLDERS[0], "/of/mine")
    before, meanwhile = dict(os.environ), {}
    failing(monkeypatch, lambda plain: meanwhile.update(os.environ) or plain)
    load(tiny.model(), compile="on")
    assert meanwhile[FOLDERS[0]] == "/of/mine"
    assert meanwhile[FOLDERS[1]].endswith("cache/compiled/triton")
    assert dict(os.environ) == before  # what the caller compiles is kept where it was


def test_compiled_numbers_are_another_identity_and_automatic_means_accelerators(tiny, monkeypatch):
    def of(**settings):
        return Reader(Reference.parse(tiny.model()), Settings(**settings))

    assert of(compile="on").details == {**of().details, "compile": "inductor"}
    assert of(compile="auto", dtype="bfloat16").details == of(dtype="bfloat16").details
    monkeypatch.setattr("palate.engines.reader.choose_device", lambda device: "cuda:1")
    assert of(compile="auto").compile_details == {"compile": "inductor"}
    assert of(compile="auto", dtype="float32").compile_details == {}
    assert of().compile_details == {}
