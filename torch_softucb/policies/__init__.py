"""Policies: nn.Module shells over ``functional``, one contract for all (see ``base``)."""

from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.epsilon_greedy import EpsilonGreedy
from torch_softucb.policies.lin_ts import LinTS
from torch_softucb.policies.lin_ucb import LinUCB
from torch_softucb.policies.soft_ucb import SoftUCBPolicy

__all__ = ["BanditPolicy", "EpsilonGreedy", "LinTS", "LinUCB", "SoftUCBPolicy"]
