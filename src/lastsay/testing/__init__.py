"""Shipped test parts: scripted backend, scripted model server, strategies, conformance checks."""
