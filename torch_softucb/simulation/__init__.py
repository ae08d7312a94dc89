"""Play policies against problems: one engine, three backends."""
