"""The command line, tables from files, and the report."""
