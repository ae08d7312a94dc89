"""Policies: nn.Module classes over ``functional`` with one contract, :class:`BanditPolicy`."""

from torch_softucb.policies.auto import AutoSoftUCB
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.bootstrap_thompson import BootstrapThompson
from torch_softucb.policies.bootstrapped_ucb import BootstrappedUCB
from torch_softucb.policies.epsilon_greedy import EpsilonGreedy
from torch_softucb.policies.exp3 import EXP3
from torch_softucb.policies.fixed_set import ArmPolicy
from torch_softucb.policies.lin_giro import LinGiro
from torch_softucb.policies.lin_phe import LinPHE
from torch_softucb.policies.lin_ts import LinTS
from torch_softucb.policies.lin_ucb import LinUCB
from torch_softucb.policies.phased_elimination import PhasedElimination
from torch_softucb.policies.soft_elim import SoftElim
from torch_softucb.policies.soft_ucb import SoftUCBPolicy

__all__ = [
    "EXP3",
    "ArmPolicy",
    "AutoSoftUCB",
    "BanditPolicy",
    "BootstrapThompson",
    "BootstrappedUCB",
    "EpsilonGreedy",
    "LinGiro",
    "LinPHE",
    "LinTS",
    "LinUCB",
    "PhasedElimination",
    "SoftElim",
    "SoftUCBPolicy",
]
