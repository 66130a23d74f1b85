"""The lifetime path: every kernel width at once, on one set of trees."""
