"""What the public estimators share: checks of their input, base classes, shared docs."""
