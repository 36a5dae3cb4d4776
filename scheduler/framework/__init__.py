"""The contract between the engine and its plugins, and the runtime that calls them.

For plugin authors (through the package root) and the engine.
"""
