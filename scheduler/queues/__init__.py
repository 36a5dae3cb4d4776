"""Queues, fair share and backfill; empty until that part is built."""
