"""Serve new users through a head with a decision log, as a product would."""

from pathlib import Path

import torch
from torch import Tensor, nn

from experiments.recommender.new_users import NOISE, Scenario
from torch_softucb import SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import DecisionLog


class _Lookup(nn.Module):
    items: Tensor

    def __init__(self, items: Tensor) -> None:
        super().__init__()
        self.register_buffer("items", items)

    def forward(self, film: Tensor) -> Tensor:  # (N, K) -> (N, K, d)
        return self.items[film]


def serve(scenario: Scenario, folder: Path, *, rounds: int) -> int:
    """Play some rounds with ``SoftUCBPolicy.auto`` and the prior; return the number of decisions in the log.

    Rewards arrive a round late, so those of the last round are still open.
    """
    world, setting = scenario.world, scenario.setting
    users, generator = world.batch_shape[0], torch.Generator().manual_seed(setting.seed)
    policy = SoftUCBPolicy.auto(setting.dim, prior=setting.prior)
    policy.reset(batch_shape=(users,))
    head, bandit = SoftUCBHead(_Lookup(world.arms), policy, seed=setting.seed), torch.arange(users)
    waiting: tuple[Tensor, Tensor] | None = None
    with DecisionLog(folder) as log:
        for _ in range(rounds):
            films = torch.rand(world.means.shape, generator=generator).topk(world.slots, dim=-1).indices
            with torch.no_grad():
                served = head.serve(head(films, bandit=bandit))
            log.decisions(served, version=1, context=bandit, candidates=films)
            if waiting is not None:
                head.feedback(*waiting)
                log.rewards(*waiting)
            log.commit()
            shown = films.gather(1, served.arm.unsqueeze(-1))
            noise = NOISE * torch.randn(users, generator=generator)
            waiting = served.id, world.means.gather(1, shown).squeeze(-1) + noise
    return rounds * users
