"""Tables from files, and models that hold how their columns were encoded."""
