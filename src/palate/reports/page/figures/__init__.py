"""Drawings of the page, by matplotlib."""
