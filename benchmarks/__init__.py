"""The speed of what matters, as ratios measured side by side in one run: ``python -m benchmarks --help``."""
