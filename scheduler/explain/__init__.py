"""Explanations and replay; empty until that part is built."""
