"""Experiments of the project: the paper's tables and figures, and the report on whether learning beta is worth it.

``paper`` and ``worth`` hold one study each: settings, the study itself, its figures and its report. ``gradients`` and
``coverage`` are two smaller studies of the second report. The other modules are shared: ``sizes`` (how much is simulated),
``seeds`` (which random numbers), ``statistics``, ``tables`` (rows, CSV, Markdown), ``plots`` and ``progress``.
"""
