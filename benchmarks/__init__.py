"""Measurements that back a budget or a decision; each is a program of its own and prints a table."""
