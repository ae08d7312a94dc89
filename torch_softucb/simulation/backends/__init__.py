"""Ways to play rounds: eagerly, under torch.compile, or in a C++ kernel."""

from torch_softucb.simulation.backends.base import Backend, PlaySetup, warn_eager
from torch_softucb.simulation.backends.compiled import Compiled
from torch_softucb.simulation.backends.eager import Eager
from torch_softucb.simulation.backends.native import Native
from torch_softucb.simulation.backends.native_contextual import NativeContextual
from torch_softucb.simulation.contextual_arms import ContextualArms

BACKENDS: dict[bool | str, type[Backend]] = {False: Eager, True: Compiled, "native": Native}


def choose_backend(setup: PlaySetup, compile: bool | str) -> Backend:
    """Return the backend that ``compile`` names; if it cannot be used, warn and return the eager one."""
    backend = BACKENDS[compile]
    if backend is Native and isinstance(setup.arms, ContextualArms):
        backend = NativeContextual
    reason = backend.unsupported(setup)
    if reason is None:
        return backend(setup)
    warn_eager(reason)
    return Eager(setup)
