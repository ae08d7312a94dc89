"""SoftUCB offline (Algorithm 2): beta moves after every batch of whole trajectories."""

from typing import Any

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from torch_softucb.checks import check_choice
from torch_softucb.learning.dual import Dual
from torch_softucb.learning.estimators import ESTIMATORS
from torch_softucb.learning.optimisers import default_lr, default_optimizer, default_scheduler, uses_log_adam
from torch_softucb.policies import AutoSoftUCB, SoftUCBPolicy
from torch_softucb.policies.beta import BetaModule
from torch_softucb.simulation.trajectory import Trajectory
from torch_softucb.training.data import planned_steps
from torch_softucb.training.module import RECORDED, SoftUCBModule


def _mean_record(trajectory: Trajectory, name: str) -> Tensor:
    return trajectory.records[name].to(torch.get_default_dtype()).mean()


def _found_scales(trajectory: Trajectory) -> dict[str, Tensor]:
    if trajectory.scales is None:
        return {}
    return {f"scales/{name}": value.nanmean() for name, value in trajectory.scales._asdict().items()}


class SoftUCBOffline(SoftUCBModule):
    """Learn one beta from whole trajectories. A training step plays a batch and follows its average gradient.

    Args:
        dim: d.
        horizon: T, rounds per trajectory.
        eta: weight of the constraint |mu - mu_hat| <= beta width; where beta settles depends on it. ``auto`` makes it a dual
            variable that finds the beta of ``target_coverage``. Only the estimator ``paper`` uses eta.
        lr: learning rate of the default optimiser. Default 5 with SGD for ``paper`` (the gradient is divided by T); 0.25
            with SGD, falling to a fifth, for ``eta="auto"``; 0.3 with RelativeAdam (multiplicative steps), falling to 0, for
            the other estimators. The parameters of a beta module use RelativeAdam and the module's own rate (0.3 for
            segments, 0.1 for a schedule, 0.02 for a network), constant with ``paper``.
        beta_init: initial beta: a number, or a BetaModule (a schedule over t / T, a network over the situation), whose T
            becomes this one.
        delta: delta of Eq. 9.
        learn_delta: learn delta too (not with ``paper``, which holds gamma constant).
        ridge_alpha: ridge weight.
        coldness: ``current``, ``lagged`` or ``smooth``.
        estimate_scales: train the policy of ``SoftUCBPolicy.auto``: offset, noise and prior scale are estimated from the
            rewards, and beta is in units of the noise. ``ridge_alpha`` and ``coldness`` are then not used.
        estimator: how trajectories become a gradient: ``paper`` is Eq. 13; ``trajectory`` the score-function gradient of
            the whole trajectory's reward (use it with ``smooth``); ``common_random_numbers`` central differences.
        target_coverage: for ``eta="auto"``: the fraction of arms and rounds for which the constraint should hold.
        subgaussian_r: R of Eq. 5, for the bound and the baselines.
        fail_prob: failure probability of Eq. 5, for the bound and the baselines.
        optimizer: another torch optimiser, as a function of the parameters.
        scheduler: a learning rate scheduler, as a function of the optimiser.
        compile: play under torch.compile (true) or in the C++ kernel (native); see rollout.
    """

    trajectories_played: Tensor

    def __init__(
        self,
        *,
        dim: int = 10,
        horizon: int = 1024,
        eta: float | str = 0.002,
        lr: float | None = None,
        beta_init: float | BetaModule = 1.0,
        delta: float = 0.99,
        learn_delta: bool = False,
        ridge_alpha: float = 1.0,
        coldness: str = "current",
        estimate_scales: bool = False,
        estimator: str = "paper",
        target_coverage: float = 0.85,
        subgaussian_r: float = 0.5,
        fail_prob: float = 0.01,
        optimizer: OptimizerCallable | None = None,
        scheduler: LRSchedulerCallable | None = None,
        compile: bool | str = False,
    ) -> None:
        if isinstance(beta_init, BetaModule):
            beta_init = beta_init.for_horizon(horizon)
        learned: dict[str, Any] = {"beta_init": beta_init, "delta": delta, "learn_delta": learn_delta}
        if estimate_scales:
            policy: SoftUCBPolicy = AutoSoftUCB(dim, **learned)
        else:
            policy = SoftUCBPolicy(dim, **learned, ridge_alpha=ridge_alpha, coldness=coldness)
        check_choice("SoftUCBOffline", "estimator", estimator, ESTIMATORS)
        if isinstance(eta, str):
            check_choice("SoftUCBOffline", "eta", eta, ("auto",))
        super().__init__(
            policy,
            horizon=horizon,
            eta=Dual(target_coverage) if isinstance(eta, str) else eta,
            lr=default_lr(policy, estimator, auto_eta=isinstance(eta, str)) if lr is None else lr,
            theory={"subgaussian_r": subgaussian_r, "fail_prob": fail_prob},
            factories=(optimizer, scheduler),
            compile=compile,
        )
        self.estimator = ESTIMATORS[estimator]
        self.register_buffer("trajectories_played", torch.zeros((), dtype=torch.int64))
        module = policy.beta_module is not None  # its weights are in the state
        self.save_hyperparameters(ignore=["optimizer", "scheduler", *(["beta_init"] if module else [])])

    @property
    def axis_value(self) -> int:
        """Trajectories played so far."""
        return int(self.trajectories_played)

    @property
    def needs_steps(self) -> bool:
        """Whether the default optimiser is RelativeAdam, which averages over the tail of the run."""
        return uses_log_adam(self.policy, self.estimator.name)

    def default_optimizer(self, steps: int | None = None) -> torch.optim.Optimizer:
        """Return SGD for ``paper`` with a scalar beta, else RelativeAdam with tail averaging."""
        return default_optimizer(self.policy, self.estimator.name, lr=self.lr, steps=steps)

    def default_scheduler(self, optimizer: torch.optim.Optimizer) -> Any:
        """Return the schedule of the default optimiser; an optimiser that the user passed keeps its rate."""
        auto_eta = isinstance(self.eta, Dual)
        if self.make_optimizer is not None or (self.estimator.name == "paper" and not auto_eta):
            return None
        steps = planned_steps(self.trainer)
        return default_scheduler(optimizer, self.estimator.name, steps=steps, auto_eta=auto_eta)

    def training_step(self, batch: object, batch_idx: int) -> Tensor:
        """Play the batch, an Episode or a BanditProblem, log it, and return the loss."""
        # counted over all epochs, so that a loader that repeats its problems plays them with new noise
        episode = self.episode_of(batch, "train", self.trainer.fit_loop.epoch_loop.total_batch_idx)
        beta = self.mean_beta
        signal = self.estimator(
            self.policy, episode, horizon=self.horizon, eta=self.eta, record=RECORDED, compile=self.compile_rounds
        )
        count = episode.problem.batch_shape.numel()
        self.trajectories_played += count * self.trainer.world_size
        played = signal.trajectory
        self.last_probs = played.records["probs"][-1]
        regret = played.regret.sum(0).mean()
        if self.policy.beta_module is not None:
            self.played_beta.copy_(_mean_record(played, "beta"))
            beta = float(self.played_beta)
        self.log_row(
            {
                "regret/cumulative": regret,
                "regret/per_round": regret / self.horizon,
                "policy/beta": beta,
                "policy/beta_bound": self.beta_bound,
                "policy/eta": self.present_eta,
                **{f"policy/{name}": _mean_record(played, name) for name in RECORDED if name not in ("probs", "beta")},
                "grad/reward": signal.reward_gradient,
                "grad/penalty": signal.penalty_gradient,
                "loss/objective": -signal.loss.detach(),
                **_found_scales(played),
            },
            batch_size=count,
        )
        self.log_dict({"beta": beta, "regret": float(regret)}, prog_bar=True, logger=False, batch_size=count)
        return signal.loss

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Step, then project beta and move eta.

        Project here rather than in ``on_train_batch_end``: ModelCheckpoint saves before that hook runs.
        """
        super().optimizer_step(*args, **kwargs)
        self.policy.project_()
        if isinstance(self.eta, Dual):
            self.eta.step()

    def on_train_batch_end(self, *_: object) -> None:
        """Warn if beta has grown beyond its theoretical bound."""
        self.warn_if_running_away()
