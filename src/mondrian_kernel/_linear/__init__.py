"""Ridge regression on cells, for many alphas and levels of coarseness at once."""
