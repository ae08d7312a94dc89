"""Meta-learning: one beta module for a whole family of problems."""

from typing import Any

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.score_function import trajectory
from torch_softucb.policies import AutoSoftUCB, LinUCB, SoftUCBPolicy
from torch_softucb.policies.beta import BetaModule, SituationBeta
from torch_softucb.training._checks import check_has_horizon
from torch_softucb.training.checkpoint import CheckedModule
from torch_softucb.training.data import planned_steps


class SoftUCBMeta(CheckedModule):
    """Learn a module that computes beta from the situation, over problems of all sizes.

    Every step plays one member of a :class:`~torch_softucb.training.Family` and follows the gradient of the whole
    trajectory's reward (estimator ``trajectory``), divided by the step's mean regret. Without that division, noisy and long
    problems, whose regret is large, would dominate the others.

    Args:
        beta: the module; by default a :class:`~torch_softucb.SituationBeta`.
        delta: delta of Eq. 9.
        learn_delta: learn delta too, one for the whole family.
        ridge_alpha: ridge weight; not used with ``estimate_scales``.
        estimate_scales: train the policy of ``SoftUCBPolicy.auto``, whose beta is in units of the noise.
        lr: learning rate of the default optimiser, Adam, falling to 0.
        optimizer: another torch optimiser, as a function of the parameters.
        scheduler: a learning rate scheduler, as a function of the optimiser.
        compile: play under torch.compile (true) or in the C++ kernel (native); see rollout.
    """

    def __init__(
        self,
        *,
        beta: BetaModule | None = None,
        delta: float = 0.99,
        learn_delta: bool = False,
        ridge_alpha: float = 1.0,
        estimate_scales: bool = False,
        lr: float = 0.02,
        optimizer: OptimizerCallable | None = None,
        scheduler: LRSchedulerCallable | None = None,
        compile: bool | str = False,
    ) -> None:
        super().__init__()
        self.beta = SituationBeta(horizon=1024, init=0.7) if beta is None else beta
        settings: dict[str, Any] = {"delta": delta, "learn_delta": learn_delta}
        if estimate_scales:
            template: SoftUCBPolicy = AutoSoftUCB(1, **settings)
        else:
            template = SoftUCBPolicy(1, coldness="smooth", ridge_alpha=ridge_alpha, **settings)
        self.oracle_alpha = ridge_alpha
        self.raw_delta = template.raw_delta
        self._template = (template,)  # in a tuple: its parameters are not those of the family
        self.lr = check_number("SoftUCBMeta", "lr", lr, low=0.0, open_low=True)
        self.make_optimizer, self.make_scheduler, self.compile_rounds = optimizer, scheduler, compile

    def policy(self, dim: int, horizon: int) -> SoftUCBPolicy:
        """Build a policy for problems of this size that shares the family's module and delta."""
        template = self._template[0].to(self.device)
        policy = template.with_beta(self.beta.for_horizon(horizon), dim=dim)
        policy.raw_delta = self.raw_delta
        return policy

    def configure_optimizers(self) -> Any:
        """Return Adam with a cosine schedule, unless others were given."""
        if self.make_optimizer is None:
            optimizer: torch.optim.Optimizer = torch.optim.Adam(self.parameters(), lr=self.lr, betas=(0.9, 0.98))
        else:
            optimizer = self.make_optimizer(self.parameters())
        steps = planned_steps(self.trainer)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR
        scheduler = cosine(optimizer, steps) if self.make_scheduler is None else self.make_scheduler(optimizer)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def training_step(self, episode: Episode, batch_idx: int) -> Tensor:
        """Play one member of the family and return its normalised loss."""
        check_has_horizon("SoftUCBMeta", episode)
        assert episode.horizon is not None
        policy = self.policy(episode.problem.dim, episode.horizon)
        signal = trajectory(policy, episode, horizon=episode.horizon, record=("beta",), compile=self.compile_rounds)
        regret = signal.trajectory.regret
        count = episode.problem.batch_shape.numel()
        row = {"family/beta": signal.trajectory.records["beta"].mean(), "family/regret": regret.sum(0).mean()}
        self.log_dict(row, prog_bar=True, batch_size=count, sync_dist=self.trainer.world_size > 1)
        return signal.loss / regret.mean().clamp(min=1e-9)

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Step, then clamp the parameters back into range."""
        super().optimizer_step(*args, **kwargs)
        self.policy(1, 1).project_()

    def validation_step(self, episode: Episode, batch_idx: int) -> None:
        """Log the regret on a held-out member over that of LinUCB at beta = 2 noise_std, which only an oracle can set."""
        check_has_horizon("SoftUCBMeta", episode)
        assert episode.horizon is not None
        problem, horizon = episode.problem, episode.horizon
        noise = torch.as_tensor(problem.noise_std, device=problem.means.device).mean()
        own = episode.play(self.policy(problem.dim, horizon), horizon=horizon, compile=self.compile_rounds)
        oracle = LinUCB(problem.dim, beta=float(2 * noise), ridge_alpha=self.oracle_alpha, device=self.device)
        other = episode.play(oracle, horizon=horizon, compile=self.compile_rounds)
        ratio = own.regret.sum(0).mean() / other.regret.sum(0).mean().clamp(min=1e-9)
        count = problem.batch_shape.numel()
        self.log("family/validation_ratio", ratio, prog_bar=True, batch_size=count, sync_dist=self.trainer.world_size > 1)
