"""Checks shared by simulations and trainers."""

import torch

from torch_softucb.simulation.backends import BACKENDS


def check_same_world(
    where: str,
    name: str,
    policy_value: int | torch.dtype | torch.device,
    other: str,
    other_value: int | torch.dtype | torch.device,
) -> None:
    """Raise if a policy and a problem (or a data module) differ in dim, dtype or device."""
    if policy_value != other_value:
        error = TypeError if isinstance(policy_value, torch.dtype) else ValueError
        hint = "" if isinstance(policy_value, int) else f"; use policy.to({other_value})"
        raise error(f"{where}: policy has {name} {policy_value}, {other} has {other_value}{hint}")


def check_compile(where: str, compile: object) -> None:
    """Raise unless ``compile`` names a backend."""
    if not isinstance(compile, bool | str) or compile not in BACKENDS:
        raise ValueError(f"{where}: compile must be False, True (torch.compile) or 'native' (C++ kernel), got {compile!r}")
