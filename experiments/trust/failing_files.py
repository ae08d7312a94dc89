"""Inject a full disk: let one file operation of this process fail."""

import errno
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

_OPERATIONS = ("pwrite", "write", "fsync", "fdatasync", "ftruncate", "rename", "replace", "open", "posix_fallocate")


class FailingFiles:
    """Context in which the k-th writing file operation raises ENOSPC; a failing write writes half of its data first.

    Args:
        position: number of the operation that fails, counted from 0.

    Attributes:
        failed: whether an operation has failed.
    """

    def __init__(self, position: int) -> None:
        self.position, self.count, self.failed = position, 0, False
        self._real: dict[str, Callable[..., Any]] = {}

    def __enter__(self) -> "FailingFiles":
        for name in _OPERATIONS:
            if hasattr(os, name):
                self._real[name] = getattr(os, name)
                setattr(os, name, self._wrapped(name, self._real[name]))
        return self

    def __exit__(self, cause: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            reads = name == "open" and not args[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if reads or self.count != self.position:
                self.count += not reads
                return real(*args, **kwargs)
            self.count += 1
            self.failed = True
            if name in ("write", "pwrite") and len(args[1]) > 1:
                real(args[0], bytes(args[1])[: len(args[1]) // 2], *args[2:])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return call
