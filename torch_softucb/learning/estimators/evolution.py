"""Evolution strategies: pairs of trajectories play the same problem with a beta module moved in opposite directions.

The score-function estimator credits drawn arms, so it has little to work with where decisions are nearly deterministic, and
its rare, large gradients (a trajectory that settled on the wrong arm) do not survive clipping. This estimator moves all
parameters of the module at once, each pair of trajectories in a separate direction, and weights each direction by the
difference in reward. One rollout estimates the whole gradient, whatever the policy's coldness.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.func import functional_call

from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.base import Estimator, Played, Slopes
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.policies.beta.base import BetaModule
from torch_softucb.policies.beta.summary import SummaryBeta
from torch_softucb.rng import mixed_seed

STEP = 0.15  # standard deviation of the moves


class MovedBeta(BetaModule):
    """A beta module with separate parameters for each trajectory.

    Args:
        module: the module.
        moves: added to its parameters, by name; ``(*B, *shape)``.
    """

    def __init__(self, module: BetaModule, moves: dict[str, Tensor]) -> None:
        super().__init__()
        self.inputs, self.horizon, self._module = module.inputs, module.horizon, (module,)
        self._values = {name: value.detach() + moves[name] for name, value in module.named_parameters()}

    @property
    def typical(self) -> float:
        """Beta of the module before training."""
        return self._module[0].typical

    def over_rounds(self, beta: Tensor, num_observations: Tensor) -> Tensor:  # (B,), (n,) -> (n or 1, B)
        """Return the beta of each trajectory in several rounds."""
        module = self._module[0]
        if not isinstance(module, SummaryBeta):
            return module.over_rounds(beta, num_observations)
        return module.over_rounds(beta, num_observations, log_decay=self._values["log_decay"])

    def forward(self, situation: Tensor, bandit: Tensor | None = None) -> Tensor:  # (B, F) -> (B,)
        """Return the beta of each trajectory by its own parameters."""
        module = self._module[0]
        beta: Tensor = torch.vmap(lambda values, row: functional_call(module, values, (row,)))(self._values, situation)
        return beta


def _play(
    policy: SoftUCBPolicy, episode: Episode, *, horizon: int, eta: object, record: Sequence[str], compile: bool | str
) -> Played:
    """Estimate the gradient from pairs of trajectories, for a policy whose beta is a module; eta is not used."""
    module, batch = policy.beta_module, episode.problem.batch_shape
    if module is None or not module.needs_estimate or policy.raw_delta is not None:
        raise ValueError(
            "evolution: the policy must have a network over the situation as its beta and a fixed delta, got "
            f"{'a number' if module is None else type(module).__name__}"
            f"{' and a learned delta' if policy.raw_delta is not None else ''}; use estimator='trajectory'"
        )
    if len(batch) != 1 or batch[0] < 2:
        raise ValueError(f"evolution: at least two problems are needed, got a batch of shape {tuple(batch)}")
    pairs = batch[0] // 2
    rows = torch.arange(pairs, device=episode.problem.means.device).repeat(2)  # both of a pair have the same random numbers
    generator = torch.Generator().manual_seed(mixed_seed(episode.action_seed, 3))
    moves = {
        name: (STEP * torch.randn(pairs, *value.shape, generator=generator)).to(value)
        for name, value in module.named_parameters()
    }
    moved = MovedBeta(module, {name: torch.cat((move, -move)) for name, move in moves.items()})
    player = policy.with_beta(moved)
    trajectory = episode.play(player, horizon=horizon, problem=episode.problem[rows], record=record, compile=compile)
    reward = -trajectory.regret.mean(0)  # (2 pairs,), up to a constant of each pair
    weight = (reward[:pairs] - reward[pairs:]) / (2 * STEP**2)
    gradients = tuple(
        (weight.view(-1, *[1] * value.dim()) * moves[name]).mean(0) for name, value in module.named_parameters()
    )
    slope = sum((gradient.sum() for gradient in gradients), torch.zeros_like(weight.mean()))
    return Played(-trajectory.regret.mean(), Slopes(parameters=gradients), slope, torch.zeros_like(slope), trajectory)


evolution = Estimator("evolution", _play)
