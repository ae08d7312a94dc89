"""Every policy of the library, from the list that the shared tests of policies use."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any


def every_policy() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield each policy's name and a function that builds it, for 2 arms, from ``dim`` and a batch shape."""
    cases = import_module("tests.policies.cases")
    for name in cases.ALL:
        yield name, partial(_build, cases, name)


def _build(cases: Any, name: str, dim: int, batch: tuple[int, ...] = (), **settings: Any) -> Any:
    return cases.build(name, dim, batch=batch, num_arms=2, **settings)
