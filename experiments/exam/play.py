"""Play a table as a bandit: one pass over its rows in random order, one arm per class, a theta per arm."""

import torch
from torch import Tensor

from experiments.exam.settings import Unit
from torch_softucb import DisjointArms
from torch_softucb.policies import BanditPolicy
from torch_softucb.problems.classification import ClassificationData


@torch.no_grad()
def alone(policy: BanditPolicy, data: ClassificationData, order: Tensor, *, seed: int = 0) -> int:  # (T,)
    """Return the mistakes of one bandit, request by request, as it would be served."""
    arms = DisjointArms(policy, num_arms=len(data.classes))
    generator = torch.Generator().manual_seed(seed)
    wrong = 0
    for row in order.tolist():
        context, label = data.contexts[row], data.label[row]
        arm = arms(context).sample(generator)
        wrong += int(arm != label)
        arms.update(context, arm, (arm == label).double())
    return wrong


def orders(rows: int, horizon: int, seeds: tuple[int, ...]) -> Tensor:  # (S, T)
    """Return the rows that each shuffle plays."""
    shuffles = [torch.randperm(rows, generator=torch.Generator().manual_seed(seed))[:horizon] for seed in seeds]
    return torch.stack(shuffles)


@torch.no_grad()
def mistakes(
    policy: BanditPolicy,
    data: ClassificationData,
    order: Tensor,  # (S, T)
    unit: Unit,
    *,
    seed: int = 0,
) -> Tensor:  # (S,)
    """Return the number of mistakes on each shuffle; all shuffles are played together, as independent bandits.

    Args:
        policy: policy over the contexts; it is reset.
        data: the table.
        order: rows to play.
        unit: rewards of right and wrong answers.
        seed: seed of the draws, the same for every policy.
    """
    arms = DisjointArms(policy, num_arms=len(data.classes))
    arms.reset(batch_shape=(len(order),))
    generator = torch.Generator().manual_seed(seed)
    wrong = torch.zeros(len(order), dtype=torch.int64)
    for rows in order.T:
        context, label = data.contexts[rows], data.label[rows]
        uniform = torch.rand(len(order), dtype=torch.float64, generator=generator)
        arm = arms(context).pick(uniform)
        wrong += arm != label
        arms.update(context, arm, unit.scale * (arm == label).double() + unit.shift)
    return wrong
