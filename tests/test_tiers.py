"""The check that reads processor times, the shards, and the order of files."""

import pytest

import durations
import tiers

SPENDERS = """
import subprocess, sys, time, pytest

SPEND = "import time\\nwhile time.process_time() < {}: pass"

def test_here():
    exec(SPEND.format(time.process_time() + 0.2))

def test_child():
    subprocess.run([sys.executable, "-c", SPEND.format(0.2)], check=True)

@pytest.fixture
def prepared():
    test_here()

def test_waits(prepared):
    time.sleep(0.2)

@pytest.mark.full
def test_of_the_full_tier():
    test_here()
"""


@pytest.fixture
def spenders(pytester):
    pytester.makeini("[pytest]\nmarkers = full")
    pytester.makepyfile(SPENDERS)
    return lambda limit: pytester.runpytest_inprocess("-p", "durations", "--cpu-limit", limit)


def test_only_the_calls_of_quick_tests_count_with_their_children(spenders):
    done = spenders("0.1")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.assert_outcomes(passed=4)
    said = [line.split("::")[1].split(":")[0] for line in done.outlines if "shorten it" in line]
    assert said == ["test_here", "test_child"]
    done.stdout.fnmatch_lines(["* 0.[12]* *::test_of_the_full_tier"])


def test_where_all_tests_are_slow_a_slow_one_may_be(spenders, monkeypatch):
    monkeypatch.setattr(durations, "SHARE", 0.9)
    assert spenders("0.1").ret == pytest.ExitCode.OK


def test_within_the_limit_all_is_well(spenders):
    assert spenders("30").ret == pytest.ExitCode.OK


def test_shards_hold_each_file_once(pytester):
    pytester.makeini("[pytest]\nmarkers = full")
    pytester.makepyfile(**{f"test_{name}": "def test_it(): pass" for name in "abcde"})
    collected = [
        line
        for part in ("1/2", "2/2")
        for line in pytester.runpytest_inprocess(
            "-p", "tiers", "--shard", part, "--collect-only", "-q"
        ).outlines
        if "::" in line
    ]
    assert sorted(collected) == [f"test_{name}.py::test_it" for name in "abcde"]


def test_the_longest_files_start_first_then_those_of_most_tests(pytester, monkeypatch):
    pytester.makeini("[pytest]\nmarkers = full")
    pytester.makepyfile(
        test_a="def test_it(): pass",
        test_b="def test_it(): pass\ndef test_again(): pass",
        test_long="def test_it(): pass",
    )
    monkeypatch.setattr(tiers, "LONGEST", [pytester.path / "test_long.py"])
    done = pytester.runpytest_inprocess("-p", "tiers", "--collect-only", "-q")
    files = [line.split("::")[0] for line in done.outlines if "::" in line]
    assert files == ["test_long.py", "test_b.py", "test_b.py", "test_a.py"]
    assert not pytester.parseconfigure("-p", "tiers").option.loadscopereorder, "or xdist sorts anew"
