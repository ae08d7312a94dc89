"""Reliability goals R1 to R23: each is measured by one function, and ``scripts/trust.py`` runs them all.

``goal`` has the registry, ``runner`` runs each goal in a separate process, ``report`` writes the results. The other modules
measure a group of goals each.
"""
