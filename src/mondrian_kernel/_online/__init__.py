"""Streams: learning from rows as they come."""
