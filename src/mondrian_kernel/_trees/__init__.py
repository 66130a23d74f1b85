"""The trees: sample, extend, cells at a lifetime, cuts in time order."""
