"""Gradient estimators of a policy's parameters, chosen by name."""
