"""A SoftUCB policy as one file of plain numbers (safetensors): loading it runs nothing."""

import os
from collections.abc import Mapping

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from torch_softucb.atomic_io import unreadable_file, whole_file
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.policies._checks import check_policy, check_policy_file

_SETTINGS = ("delta", "ridge_alpha", "smoothing")


@torch.no_grad()
def save_policy(path: str | os.PathLike[str], policy: SoftUCBPolicy, *, notes: Mapping[str, object] | None = None) -> None:
    """Write beta, statistics and settings; ``notes`` are kept with them as text. The old file or the new one, never half.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "policy.safetensors"
        >>> save_policy(path, SoftUCBPolicy(3, beta_init=0.5, coldness="smooth"), notes={"horizon": 1024})
        >>> load_policy(path)
        SoftUCBPolicy(dim=3, ridge_alpha=1.0, batch_shape=(), beta=0.5, delta=0.99, coldness='smooth')
    """
    check_policy("save_policy", policy, SoftUCBPolicy)
    settings = {name: float(getattr(policy, name)) for name in _SETTINGS}
    kind = {
        "kind": "SoftUCBPolicy",
        "dim": policy.dim,
        "coldness": policy.coldness,
        "dtype": str(policy.dtype).split(".")[1],
    }
    text = {name: str(value) for name, value in {**(notes or {}), **settings, **kind}.items()}
    tensors = {"beta": policy.beta.detach().contiguous(), "statistics": policy.statistics.contiguous()}
    with whole_file(path) as file:
        file.write(save(tensors, metadata=text))


def load_policy(path: str | os.PathLike[str], *, device: torch.device | str | None = None) -> SoftUCBPolicy:
    """The policy with the statistics that it was saved with; ``policy.reset()`` makes it begin from nothing."""
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            text: dict[str, str] = file.metadata() or {}
            names = set(file.keys())
            check_policy_file(path, text, names, needed=(*_SETTINGS, "dim", "coldness", "dtype"))
            beta, statistics = file.get_tensor("beta"), file.get_tensor("statistics")
    except (SafetensorError, OSError) as error:
        raise unreadable_file(path, error) from error
    policy = SoftUCBPolicy(
        int(text["dim"]),
        beta_init=beta,
        coldness=text["coldness"],
        device=device,
        dtype=getattr(torch, text["dtype"]),
        **{name: float(text[name]) for name in _SETTINGS},  # type: ignore[arg-type]
    )
    policy.load_state_dict({"raw_beta": beta, "statistics": statistics})
    return policy
