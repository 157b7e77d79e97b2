"""Processor time of each test: the slowest are printed, and a slow test of the quick tier fails."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

SHOWN = 30
SHARE = 0.02
PROPERTY = "cpu_seconds"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cpu-limit",
        type=float,
        metavar="SECONDS",
        help="print the slowest tests, and fail if one of the quick tier took more than SECONDS, "
        f"or than {SHARE:.0%} of them all where that is longer",
    )


def pytest_configure(config: pytest.Config) -> None:
    limit = config.getoption("--cpu-limit")
    if limit is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(limit))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Measure the call alone: fixtures are set up before it. Wall time would count other load."""
    before = cpu_seconds()
    try:
        yield
    finally:
        item.user_properties.append((PROPERTY, cpu_seconds() - before))


def cpu_seconds() -> float:
    """Return what this process and its ended children have taken."""
    return sum(os.times()[:4])


class Durations:
    """Gathers the figures of all workers."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.quick: dict[str, float] = {}
        self.full: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            tier = self.full if "full" in report.keywords else self.quick
            tier[report.nodeid] = dict(report.user_properties)[PROPERTY]

    @property
    def limit(self) -> float:
        """Return what a test may take: a slow or shared core lengthens all tests alike."""
        return max(self.seconds, SHARE * sum(self.quick.values()))

    @property
    def over(self) -> list[str]:
        return [test for test, seconds in self.quick.items() if seconds > self.limit]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.over and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        every = sorted((self.quick | self.full).items(), key=lambda pair: -pair[1])
        total = sum(self.quick.values()), sum(self.full.values())
        terminalreporter.section(f"{SHOWN} slowest tests, in seconds of processor time")
        for test, seconds in every[:SHOWN]:
            terminalreporter.write_line(f"{seconds:7.2f} {test}")
        terminalreporter.write_line(
            f"All quick tests: {total[0]:.0f} s; all others: {total[1]:.0f} s."
        )
        for test in self.over:
            terminalreporter.write_line(
                f"{test}: {self.quick[test]:.1f} s, and a quick test may take {self.limit:.3g} s: "
                "shorten it, or name its file in tests/tiers.py",
                red=True,
            )
