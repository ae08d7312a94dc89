"""State changes that are safe under threads, forks, signals and failing operations.

A policy, the heads on it and the learner of its beta share one :class:`Guard`. The rules, which hold wherever it is used:

- Code that changes state holds ``guard.lock`` and calls ``guard.recover()`` first. Decisions are made without the lock.
- Everything that may fail is computed first. The change itself is either one assignment of a reference, or goes through
  :meth:`Guard.commit` with a function that undoes it. An exception at any point, also one raised by a signal handler between
  two operations, then leaves all of the change or nothing.
- Tensors that a decision may be reading are replaced, not written to. Only rows of a batch of bandits are written in place;
  readers copy those under the lock.
- ``with guard.lock`` uses a lock implemented in C: no signal handler runs between taking it and entering the block.

After a fork the child gets new locks, because the thread that held an old one does not exist there.
"""

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from types import FrameType
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

_Result = TypeVar("_Result")
_guards: "weakref.WeakSet[Guard]" = weakref.WeakSet()
_forks = 0  # how many forks lie between the first process and this one


class _Change(NamedTuple):
    undo: Callable[[], None]
    frame: FrameType  # of the commit that makes the change


class Guard:
    """Re-entrant lock, together with the way back from a change that was interrupted.

    Copies and unpickled guards are new ones: a copy of a policy is not locked together with the original.

    Attributes:
        lock: held by code that changes the state.

    Example:
        >>> guard, state = Guard(), [1, 2]
        >>> def write():
        ...     state[0] = 3
        ...     raise TimeoutError
        >>> try:
        ...     guard.commit(write, lambda: state.__setitem__(0, 1))
        ... except TimeoutError:
        ...     print(state)
        [1, 2]
    """

    __slots__ = ("__weakref__", "_change", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._change: _Change | None = None
        _guards.add(self)

    def __reduce__(self) -> tuple[type["Guard"], tuple[()]]:
        return Guard, ()

    def commit(self, write: Callable[[], _Result], undo: Callable[[], None]) -> _Result:
        """Change the state, or undo the change and raise. The caller holds the lock.

        Commits can be nested: an exception undoes the outer change, too.

        Args:
            write: makes the change.
            undo: restores the state from before, wherever ``write`` was interrupted; may be called more than once.

        Returns:
            The result of ``write``.
        """
        outer = self._change

        def undo_all() -> None:
            undo()
            if outer is not None:
                outer.undo()

        try:
            self._change = _Change(undo_all, sys._getframe())
            result = write()
            self._change = outer  # from here on the change counts
        except BaseException:
            self._revert()
            raise
        return result

    def recover(self) -> None:
        """Undo a change whose :meth:`commit` was interrupted twice, so that it could neither finish nor undo it.

        Does nothing inside a commit, whose change is still being made.
        """
        if self._change is not None and not _is_running(self._change.frame):
            self._revert()

    def _revert(self) -> None:
        if self._change is not None:
            self._change.undo()
            self._change = None


def _is_running(frame: FrameType) -> bool:
    """Return whether a call is in progress, one that has led to this one."""
    caller: FrameType | None = sys._getframe()
    while caller is not None and caller is not frame:
        caller = caller.f_back
    return caller is not None


def fork_count() -> int:
    """Return a number that differs between a process and its forked children."""
    return _forks


def _after_fork() -> None:
    global _forks
    _forks += 1
    for guard in list(_guards):
        guard.lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)


def keep_values(tensors: Iterable[Tensor]) -> Callable[[], None]:
    """Copy the values of tensors; returns a function that writes them back."""
    with torch.inference_mode(False), torch.no_grad():
        kept = [(tensor, tensor.detach().clone()) for tensor in tensors]

    def restore() -> None:
        with torch.inference_mode(False), torch.no_grad():
            for tensor, value in kept:
                tensor.copy_(value)

    return restore


def load_whole(guard: Guard, module: nn.Module, load: Callable[[], _Result]) -> _Result:
    """Call ``load``, which loads a state into ``module``; on an error, restore all tensors and attributes.

    Takes the memory of one more copy of the module while it runs.
    """
    with guard.lock:
        guard.recover()
        kept = [(part, dict(vars(part)), dict(part._parameters), dict(part._buffers)) for part in module.modules()]
        values = keep_values({id(t): t for t in (*module.parameters(), *module.buffers())}.values())

        def undo() -> None:
            for part, attributes, parameters, buffers in kept:
                vars(part).update(attributes)
                part._parameters.update(parameters)
                part._buffers.update(buffers)
            values()

        return guard.commit(load, undo)
