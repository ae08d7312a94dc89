"""Read and write small networks as safetensors with a checksum."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import nn

from torch_softucb.checked_files import load_tensors, save_tensors
from torch_softucb.policies.state_checks import check_names, check_parameters

Network = TypeVar("Network", bound=nn.Module)


def load_network(
    path: str | os.PathLike[str],
    build: Callable[..., Network],
    *,
    name: str,
    settings: tuple[str, ...],
    has_hidden: bool = True,
) -> tuple[Network, dict[str, str]]:
    """Load a network that :func:`save_network` wrote.

    Args:
        path: file to read.
        build: builds the network from the settings in the file and, if there is a hidden layer, ``hidden``, its size.
        name: class of the network, for error messages.
        settings: names of the settings.
        has_hidden: whether the network has a hidden layer.

    Returns:
        The network, and the notes that were saved with it.

    Raises:
        ValueError: if the file cannot be read, is damaged, or is not what :func:`save_network` writes.
    """
    tensors, about = load_tensors(path)
    try:
        found = json.loads(about.pop("module", "null"))
        if not isinstance(found, dict) or set(found) != set(settings):
            raise ValueError(f"is not a file of {name}.save: its metadata must have the settings {', '.join(settings)}")
        weight = tensors.get("hidden.weight")
        if has_hidden:
            if weight is None or weight.dim() != 2 or not len(weight):
                raise ValueError("tensor hidden.weight is missing or has the wrong shape")
            found["hidden"] = len(weight)
        with torch.random.fork_rng(devices=[]):  # the weights are drawn at random before they are loaded
            module = build(**found)
        check_names(name, module, tensors)
        check_parameters(name, module, tensors)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"network file {path}: {error}") from error
    module.load_state_dict(tensors)
    return module, about


def save_network(
    path: str | os.PathLike[str], module: nn.Module, settings: Mapping[str, Any], about: Mapping[str, str]
) -> None:
    """Write a network with its settings and notes."""
    save_tensors(path, module.state_dict(), {"module": json.dumps(dict(settings)), **about})
