"""Columns of tables, rows that are dicts, and what is learnt of a column to encode it."""
