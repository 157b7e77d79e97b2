"""Requests to endpoints, and how their replies are read."""

from palate.engines.endpoints.sampling import Sampling, SamplingEndpoint, SamplingRequest
from palate.engines.http.replies import read_completion

__all__ = ["Sampling", "SamplingEndpoint", "SamplingRequest", "read_completion"]
