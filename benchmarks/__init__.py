"""Measurements beside what a user would pick instead; see ``python -m benchmarks --help``."""
