"""Pairs whose answers a language model writes to what users' own posts say of their taste."""
