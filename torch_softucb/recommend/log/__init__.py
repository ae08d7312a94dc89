"""The decision log: writing, sealing, reading."""
