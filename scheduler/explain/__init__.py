"""Explanations: what every plugin says of a pending pod in a cluster, and why it goes where it goes, or nowhere."""
