"""Play policies against problems: one engine, several backends."""
