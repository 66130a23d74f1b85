"""Compiled kernels: arrays in, arrays out; no scikit-learn, no targets, no classes."""
