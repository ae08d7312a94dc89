"""SoftUCB online (Algorithm 3): beta moves after every round, within the trajectory that it plays."""

from typing import Any

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_choice, check_integer
from torch_softucb.learning.dual import OnlineDual
from torch_softucb.learning.episode import Episode
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.simulation._checks import check_same_world
from torch_softucb.simulation.engine import Round, Simulation
from torch_softucb.training._checks import (
    check_episodes,
    check_not_played,
    check_one_episode,
    check_one_process,
    check_whole_horizon,
)
from torch_softucb.training.data import BanditDataModule
from torch_softucb.training.module import SoftUCBModule


class SoftUCBOnline(SoftUCBModule):
    """Every trajectory learns a beta of its own while it plays, by Eq. 15 after every round.

    A training step is ``rounds_per_step`` rounds of all trajectories: so Lightning's cost a step does not count.

    Args:
        num_trajectories: trajectories of one process, each with its beta.
        dim: d.
        horizon: T.
        rounds_per_step: rounds of one training step.
        eta: weight of the constraint. ``auto`` makes it a dual variable, one a trajectory, that finds the beta of
            ``target_coverage`` from the rewards alone. It looks at every round, and rounds that are looked at are played
            eagerly whatever ``compile`` says: 1.7 times the time of a number with ``compile="native"``.
        lr: learning rate of the default optimiser, SGD. With ``auto`` a step is at most lr times the size of beta and of the
            estimates' errors.
        beta_init: where every beta starts; from 0 play stays uniform for long (D8). With ``auto`` it counts as much as one
            reward of an arm of width 1.
        delta: Eq. 9's delta.
        ridge_alpha: ridge weight.
        coldness: ``current``, ``lagged`` or ``smooth``.
        target_coverage: for ``eta="auto"``: the share of arms and rounds in which |mu - mu_hat| <= beta width is to hold.
        subgaussian_r: R of Eq. 5, for the bound and the baselines.
        fail_prob: failure probability of Eq. 5, likewise.
        optimizer: another torch optimiser; parameters in, optimiser out.
        scheduler: a learning rate scheduler, stepped every training step.
        compile: play under torch.compile (true) or in the C++ kernel (native); see rollout.
    """

    def __init__(
        self,
        *,
        num_trajectories: int = 256,
        dim: int = 10,
        horizon: int = 1024,
        rounds_per_step: int = 32,
        eta: float | str = 1.0,
        lr: float = 0.1,
        beta_init: float = 1.0,
        delta: float = 0.99,
        ridge_alpha: float = 1.0,
        coldness: str = "current",
        target_coverage: float = 0.85,
        subgaussian_r: float = 0.5,
        fail_prob: float = 0.01,
        optimizer: OptimizerCallable | None = None,
        scheduler: LRSchedulerCallable | None = None,
        compile: bool | str = False,
    ) -> None:
        count = check_integer("SoftUCBOnline", "num_trajectories", num_trajectories, low=1)
        policy = SoftUCBPolicy(
            dim,
            beta_init=torch.full((count,), float(beta_init)),
            delta=delta,
            ridge_alpha=ridge_alpha,
            coldness=coldness,
        )
        if isinstance(eta, str):
            check_choice("SoftUCBOnline", "eta", eta, ("auto",))
        super().__init__(
            policy,
            horizon=horizon,
            eta=OnlineDual(target_coverage, beta=policy.beta) if isinstance(eta, str) else eta,
            lr=lr,
            subgaussian_r=subgaussian_r,
            fail_prob=fail_prob,
            optimizer=optimizer,
            scheduler=scheduler,
            compile=compile,
        )
        self.rounds_per_step = check_integer("SoftUCBOnline", "rounds_per_step", rounds_per_step, low=1)
        self.automatic_optimization = False
        self.register_buffer("past", torch.zeros(count))  # running sum of reward gradients, D10
        self.register_buffer("regrets", torch.zeros(self.horizon, count))  # of every round
        self.register_buffer("value", torch.zeros(count))  # running sum of estimated rewards, Eq. 14
        self.simulation: Simulation | None = None
        self._saved: dict[str, Any] | None = None
        self._rounds = 0
        self.save_hyperparameters(ignore=["optimizer", "scheduler"])

    past: Tensor
    regrets: Tensor
    value: Tensor

    @property
    def axis_value(self) -> int:
        return self.rounds_played

    @property
    def rounds_played(self) -> int:
        return self._rounds

    def check_data(self, data: BanditDataModule) -> None:
        where = "SoftUCBOnline"
        check_episodes(where, data.one_episode, wanted=True)
        check_same_world(where, "dim", self.policy.dim, "data", data.dim)
        check_one_episode(where, torch.Size([data.trajectories]), self.policy.raw_beta.shape)
        check_whole_horizon(where, self.rounds_per_step, data.num_steps, self.horizon)

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage == "fit":
            check_one_process("SoftUCBOnline", self.trainer.world_size)
            check_not_played("SoftUCBOnline", self._rounds, self.horizon)

    @property
    def final_regret(self) -> float:
        """Of the run itself, while it learned."""
        return float(self.regret.mean())

    @property
    def regret(self) -> Tensor:  # (B,)
        return self.regrets.sum(0)

    @property
    def curve(self) -> Tensor:  # (T, B)
        """Cumulative regret of the run so far."""
        return self.regrets.cumsum(0)

    def _open(self, episode: Episode) -> Simulation:
        if self.simulation is None:
            noise, action = episode.generators(self.policy.device)
            self.simulation = Simulation(
                self.policy,
                episode.problem,
                generator=action,
                noise_generator=noise,
                gradient=True,
                discount=episode.discount,
                compile=self.compile_rounds,
            )
            if self._saved is not None:
                self.simulation.load_state_dict(self._saved)
        return self.simulation

    @torch.no_grad()
    def training_step(self, episode: Episode, batch_idx: int) -> None:
        simulation = self._open(episode)
        optimizer = self.optimizers()
        end, every = min(simulation.t + self.rounds_per_step, self.horizon), isinstance(self.eta, OnlineDual)
        for play in simulation.play(end - simulation.t, recorded=lambda t: every or t + 1 == end, stretch=1):
            gradient = self._learn(play)
            last = play.t + 1 == end
            (optimizer if last else optimizer.optimizer).step()  # type: ignore[union-attr]  # Lightning counts one a step
            self.policy.project_()
            if last:
                self._rounds = end
                self._report(play, gradient)
        schedulers = self.lr_schedulers()
        if schedulers is not None:
            schedulers.step()  # type: ignore[union-attr]
        self.warn_if_running_away()

    def _learn(self, play: Round) -> tuple[Tensor, Tensor]:
        """Eq. 15 of this round into beta's grad; returns its reward part and its penalty part."""
        terms = play.gradient
        assert terms is not None
        eta = 0.0 if isinstance(self.eta, OnlineDual) else self.present_eta  # an eta each: their part comes below
        step = F.online_gradient(terms.reward, self.past, terms.penalty, t=play.t + 1, horizon=self.horizon, eta=eta)
        self.past.copy_(step.past)
        self.regrets[play.t] = play.regret[0]
        self.value += terms.value
        raw, gradient = self.policy.raw_beta, step.gradient
        penalty = terms.penalty / self.horizon
        if isinstance(self.eta, OnlineDual):
            self._observe(self.eta, play)
            reward, gradient = gradient, self.eta.climb(self.policy.beta, gradient, penalty)
            penalty = self.eta.log_eta.exp() * penalty
        else:
            penalty = eta * penalty
            reward = gradient - penalty
        raw.grad = F.nonnegative_gradient(raw, -gradient)
        return reward, penalty

    def _observe(self, dual: OnlineDual, play: Round) -> None:
        assert play.decision is not None
        assert play.arm is not None
        assert play.reward is not None
        arm = play.arm.unsqueeze(-1)
        mu_hat, width = (value.gather(-1, arm).squeeze(-1) for value in (play.decision.mu_hat, play.decision.width))
        dual.observe(mu_hat, width, play.reward)

    def _report(self, play: Round, gradient: tuple[Tensor, Tensor]) -> None:
        decision, t = play.decision, play.t + 1
        assert self.simulation is not None
        assert decision is not None
        assert decision.gamma is not None
        assert decision.beta is not None
        assert play.gradient is not None
        beta = self.policy.beta
        problem = self.simulation.problem
        inside = F.coverage(self.simulation.present_means, decision.mu_hat, decision.width, decision.beta, mask=problem.mask)
        objective = F.online_objective(play.gradient.value, self.value, t=t, horizon=self.horizon)  # Eq. 14
        self.last_probs = decision.probs
        regret = self.regret.mean()
        count = len(beta)
        told = {"policy/coverage_estimated": self.eta.coverage(beta).mean()} if isinstance(self.eta, OnlineDual) else {}
        self.log_row(
            {
                "regret/cumulative": regret,
                "regret/per_round": regret / t,
                "policy/beta": beta.mean(),
                "policy/beta_low": beta.quantile(0.1),
                "policy/beta_high": beta.quantile(0.9),
                "policy/beta_bound": self.beta_bound,
                "policy/eta": self.present_eta,
                "policy/gamma": decision.gamma.mean(),
                "policy/num_suboptimal": F.num_suboptimal(decision.index, mask=problem.mask).float().mean(),
                "policy/entropy": decision.entropy().mean(),
                "policy/coverage": inside.mean(),
                **told,
                "grad/reward": gradient[0].mean(),
                "grad/penalty": gradient[1].mean(),
                "loss/objective": (objective + gradient[1] * beta).mean(),
            },
            batch_size=count,
        )
        self.log_dict({"beta": float(beta.mean()), "regret": float(regret)}, prog_bar=True, logger=False, batch_size=count)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self.simulation is not None:
            checkpoint["simulation"] = self.simulation.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        self._saved = checkpoint.get("simulation")
        self._rounds = 0 if self._saved is None else self._saved["t"]
