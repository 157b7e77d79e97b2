"""Guided writing against enumeration: every law on models so small that all responses are listed.

The laws are computed here from the models' plain forward passes, by formulas of their own.
"""
