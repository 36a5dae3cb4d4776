"""Scenarios: small clusters with the end state that another scheduler's authors expect, run on our engine.

For `python -m benchmarks.scenarios`.  README.md says what the files mean and what is compared.
"""
