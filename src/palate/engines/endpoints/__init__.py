"""Requests to endpoints, and how their replies are read."""

from palate.engines.endpoints.sampling import Sampling, SamplingEndpoint, SamplingRequest

__all__ = ["Sampling", "SamplingEndpoint", "SamplingRequest"]
