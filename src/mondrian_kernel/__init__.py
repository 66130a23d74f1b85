"""The Mondrian kernel: Laplace-kernel learning with every kernel width at once."""
