"""What `palate serve` costs: clients that post answers, and the same answers scored here."""

from palate.bench.serving.measuring import (
    QUICK_SERVE_CASES,
    SECONDS,
    SERVE_CASES,
    ServeBench,
    ServeCase,
    bench_serving,
)

__all__ = [
    "QUICK_SERVE_CASES",
    "SECONDS",
    "SERVE_CASES",
    "ServeBench",
    "ServeCase",
    "bench_serving",
]
