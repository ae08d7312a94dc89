"""Progress bars of the studies."""

from collections.abc import Callable, Iterable
from typing import Any

Track = Callable[[Iterable[Any], str], Iterable[Any]]  # (work, description) -> the same work; ``rich.progress.track`` is one
