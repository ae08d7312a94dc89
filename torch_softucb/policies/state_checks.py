"""Check the state of a policy that comes from a file or another program, before any of it is assigned."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from torch_softucb.policies.rows import RowLayout, cache_errors

if TYPE_CHECKING:
    from torch_softucb.policies.statistics import RidgeStatistics

_SYMMETRY = 1e-8  # relative to the largest entry of V; sums of x x^T differ from their transpose by rounding only
_CHUNK = 1 << 18  # numbers per block: temporaries stay in the processor's cache


@torch.no_grad()
def check_statistics(where: str, policy: "RidgeStatistics", statistics: object) -> None:
    """Raise ValueError unless the rows can be statistics of this policy.

    Rows must be dense float64 tensors of the policy's length, finite, with V symmetric and positive definite, the cached
    root that of V (within the tolerance of ``update``), counts and gamma not negative, and a memory that the policy can
    have.

    Args:
        where: start of the error message.
        policy: policy that the statistics are for; it is not changed.
        statistics: rows ``(*B, size)`` of any batch of bandits.
    """
    size = policy.layout.size
    if not isinstance(statistics, Tensor) or statistics.layout != torch.strided or statistics.is_quantized:
        raise ValueError(f"{where}: statistics must be a dense tensor, got {_describe(statistics)}")
    shape = tuple(statistics.shape)
    fits = len(shape) > 0 and shape[-1] == size and 0 not in shape
    if statistics.dtype != torch.float64 or not fits:
        raise ValueError(
            f"{where}: statistics must be torch.float64 of shape (*B, {size}), got {statistics.dtype} of shape {shape}; "
            f"load a state that was saved with dim={policy.dim} and the same settings"
        )
    if statistics.is_meta:
        return
    if statistics.untyped_storage().nbytes() < 8 * statistics.numel():
        raise ValueError(f"{where}: statistics of shape {shape} must be stored in full, got an expanded tensor")
    rows = statistics.detach().reshape(-1, size)
    step = max(1, _CHUNK // size)
    for first in range(0, len(rows), step):
        block = rows[first : first + step]
        for fault, bad in _faults(policy, policy.layout, block).items():
            if bool(bad.any()):
                row = first + int(bad.nonzero()[0])
                raise ValueError(f"{where}: statistics are impossible: {fault} (bandit {row} of {len(rows)})")


def _faults(policy: "RidgeStatistics", layout: RowLayout, rows: Tensor) -> dict[str, Tensor]:  # (n, size) -> (n,) each
    state = layout.unpack(rows)
    sound = rows.isfinite().all(-1)
    if not bool(sound.all()):
        return {"a number is NaN or infinite": ~sound}
    diagonal = state.V.diagonal(dim1=-2, dim2=-1)
    asymmetry = (state.V - state.V.mT).abs().amax((-2, -1))
    error, allowed = cache_errors(state)
    faults = {
        "V is not symmetric": asymmetry > _SYMMETRY * diagonal.abs().amax(-1),
        "V is not positive definite": _not_positive(state.V, error),
        "root does not belong to V; refresh() the policy before it is saved": ~(error <= allowed),
        "the number of observations is negative": state.num_observations < 0,
        "gamma is negative": state.gamma < 0,
    }
    if layout.memory_size:
        faults["the memory is not one that this policy can have"] = policy.impossible_memory(state.memory)
    return faults


def _not_positive(V: Tensor, error: Tensor) -> Tensor:  # (n, d, d), (n,) -> (n,)
    """Whether V has an eigenvalue that is not positive.

    Where root^T V root is within 1 / 2d of I, V is positive definite by Gershgorin's theorem; only the other rows need a
    factorisation.
    """
    bad = ~(error * V.shape[-1] < 0.5)
    if bool(bad.any()):
        bad[bad.clone()] = torch.linalg.cholesky_ex(V[bad])[1] != 0
    return bad


@torch.no_grad()
def check_parameters(where: str, module: nn.Module, state: Mapping[str, object], *, skip: tuple[str, ...] = ()) -> None:
    """Raise ValueError unless entries fit the parameters and buffers of the same name.

    Each must be a dense tensor of the same shape, floating point or not as its target is, and finite in the target's dtype.

    Args:
        where: start of the error message.
        module: module that the entries are for; it is not changed.
        state: entries by name; names that the module does not have are ignored.
        skip: names that are checked elsewhere.
    """
    for name, own in module.state_dict(keep_vars=True).items():
        if name not in state or name in skip:
            continue
        value = state[name]
        if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_quantized:
            raise ValueError(f"{where}: {name} must be a dense tensor, got {_describe(value)}")
        floating = own.is_floating_point() and value.is_floating_point()
        if value.shape != own.shape or not (floating or value.dtype == own.dtype):
            raise ValueError(
                f"{where}: {name} must be {own.dtype} of shape {tuple(own.shape)}, got {value.dtype} of shape "
                f"{tuple(value.shape)}"
            )
        if floating and not value.is_meta and not bool(value.to(own.dtype).isfinite().all()):
            raise ValueError(f"{where}: {name} must be finite, got NaN or infinite values")


def check_names(where: str, module: nn.Module, state: Mapping[str, object]) -> None:
    """Raise ValueError unless the entries are those of the module."""
    own = set(module.state_dict())
    if own != set(state):
        missing, unknown = sorted(own - set(state)), sorted(set(state) - own)
        fix = "; build the policy with any prior=, which the state then replaces" if "prior_covariance" in unknown else ""
        raise ValueError(
            f"{where}: the state must have the entries {sorted(own)}, got without {missing} and with {unknown}{fix}"
        )


def _describe(value: object) -> str:
    return f"{value.layout} {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
