"""Numerical jobs of the methods: many fits at once, and the layers of small networks."""
