"""State that belongs to one process: DistributedDataParallel leaves it alone, however deep it is nested."""

from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook
from torch.nn.parallel import DistributedDataParallel


class RankState(nn.Module):
    """Base class of modules with buffers that differ between the processes of a distributed run.

    ``DistributedDataParallel`` overwrites the buffers of every process with those of rank 0 in each forward. It spares the
    names in ``_ddp_params_and_buffers_to_ignore``, but reads this attribute of the outermost module only. Importing this
    module makes it read the attribute of every ``RankState`` inside, so that a policy or a head may be a part of any model.
    """

    _ddp_params_and_buffers_to_ignore: tuple[str, ...] = ()


def rank_state_names(module: nn.Module) -> set[str]:
    """Return the names, as in ``module.named_buffers()``, of all buffers that a process keeps for itself.

    Example:
        >>> from torch_softucb import SoftUCBPolicy
        >>> rank_state_names(nn.Sequential(nn.Linear(4, 2), SoftUCBPolicy(2)))
        {'1.statistics'}
    """
    names = {
        f"{path}.{name}" if path else name
        for path, part in module.named_modules(remove_duplicate=False)
        if isinstance(part, RankState)
        for name in part._ddp_params_and_buffers_to_ignore
    }
    return names & {name for name, _ in module.named_buffers(remove_duplicate=False)}  # a policy may have no prior


def _spare_rank_state(parent: nn.Module, name: str, child: Any) -> None:
    """Add the names to those that DDP ignores, when it takes the module that it wraps and before its first broadcast."""
    if name == "module" and isinstance(parent, DistributedDataParallel):
        parent.parameters_to_ignore |= rank_state_names(child)


register_module_module_registration_hook(_spare_rank_state)
