import math

import lightning as L
import numpy as np
import pytest
import torch

from tests import reference
from torch_softucb import LinUCB, rollout
from torch_softucb.training import BanditDataModule, Episode, SoftUCBOnline


class _Double(BanditDataModule):
    def episode(self, stage, number, count):
        own = super().episode(stage, number, count)
        return Episode(own.problem.to(torch.double), own.noise_seed, own.action_seed)


class _Watch(L.Callback):
    def __init__(self):
        self.betas = []

    def on_train_batch_end(self, trainer, pl_module, *_):
        self.betas.append(pl_module.policy.beta.detach().clone())


def test_50_rounds_of_eq_15_by_loops(fit):
    """Every round's beta of every trajectory, against Algorithm 3 written out: to 1e-10."""
    horizon, count, eta, lr = 50, 4, 0.8, 0.3
    data = _Double(num_arms=6, dim=3, trajectories=count, num_steps=horizon, fresh_problems=True, one_episode=True)
    model = SoftUCBOnline(num_trajectories=count, dim=3, horizon=horizon, rounds_per_step=1, eta=eta, lr=lr, beta_init=0.7)
    start = float(model.policy.beta[0].detach())  # 0.7 as float32 has it
    watch = _Watch()
    fit(model.double(), data, callbacks=[watch], logger=False, limit_val_batches=0)
    episode = data.episode("train", 0, count)
    arms, means = episode.problem.arms.numpy(), episode.problem.means.numpy()
    noise, draws = model.simulation._noise(0, horizon), model.simulation._draws(0, horizon)
    for r in range(count):
        bandit = reference.Bandit(arms[r], beta=start, delta=0.99, alpha=1.0, mode="current")
        past = 0.0
        for t in range(1, horizon + 1):
            bandit.step()
            now = reference.reward_gradient(bandit.S, bandit.mu_hat, bandit.width, bandit.gamma, bandit.beta, [True] * 6)
            past += now
            gradient = (past + (horizon - t) * now + eta * sum(bandit.width)) / horizon
            arm = int(np.searchsorted(np.cumsum(bandit.probs), draws[t - 1, r].item(), side="right"))
            bandit.pull(arm, means[r, arm] + noise[t - 1, r].item())
            bandit.beta = max(0.0, bandit.beta + lr * gradient)
            assert watch.betas[t - 1][r].item() == pytest.approx(bandit.beta, abs=1e-10)


def test_50_rounds_of_the_dual_ascent_by_loops(fit):
    """beta and eta of every trajectory, every round, against the formulas written out with numbers: to 1e-10."""
    horizon, count, target, lr = 50, 4, 0.9, 0.1
    data = _Double(num_arms=6, dim=3, trajectories=count, num_steps=horizon, fresh_problems=True, one_episode=True)
    model = SoftUCBOnline(
        num_trajectories=count, dim=3, horizon=horizon, rounds_per_step=1, eta="auto", target_coverage=target, beta_init=0.7
    ).double()
    start, first = float(model.policy.beta[0].detach()), float(model.eta.squares[0])  # as float32 has them
    watch = _Watch()
    fit(model, data, callbacks=[watch], logger=False, limit_val_batches=0)
    episode = data.episode("train", 0, count)
    arms, means = episode.problem.arms.numpy(), episode.problem.means.numpy()
    noise, draws = model.simulation._noise(0, horizon), model.simulation._draws(0, horizon)
    assert first == pytest.approx((0.7 / 1.6448536) ** 2, rel=1e-5)
    for r in range(count):
        bandit = reference.Bandit(arms[r], beta=start, delta=0.99, alpha=1.0, mode="current")
        past, log_eta, squares, weight = 0.0, 0.0, first, 1.0
        for t in range(1, horizon + 1):
            bandit.step()
            now = reference.reward_gradient(bandit.S, bandit.mu_hat, bandit.width, bandit.gamma, bandit.beta, [True] * 6)
            past += now
            part, penalty = (past + (horizon - t) * now) / horizon, sum(bandit.width) / horizon
            arm = int(np.searchsorted(np.cumsum(bandit.probs), draws[t - 1, r].item(), side="right"))
            reward, w2 = means[r, arm] + noise[t - 1, r].item(), bandit.width[arm] ** 2
            squares, weight = squares + w2 * (reward - bandit.mu_hat[arm]) ** 2 / (1 + w2), weight + w2
            kappa = math.sqrt(squares / weight)
            covered = min(max(math.erf(bandit.beta / kappa / math.sqrt(2)), 0.001), 0.999)
            error = math.log(target / (1 - target)) - math.log(covered / (1 - covered))
            if part == 0:
                slope = math.tanh(1.25 * error)
            else:
                up = math.exp(log_eta + 2.5 * error) * penalty
                slope, log_eta = (up - abs(part)) / (up + abs(part)), log_eta + 0.25 * error
            bandit.pull(arm, reward)
            bandit.beta = max(0.0, bandit.beta + lr * (bandit.beta + kappa) * slope)
            assert watch.betas[t - 1][r].item() == pytest.approx(bandit.beta, abs=1e-10)
        assert model.eta.log_eta[r].item() == pytest.approx(log_eta, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("beta_init", [0.0, 1.0])
@pytest.mark.parametrize("coldness", ["current", "smooth"])
def test_every_trajectory_finds_a_beta_near_the_target(coldness, beta_init, fit):
    """True coverage of the second half, target 0.85: within 0.08; every beta within a factor of 2 of the mean."""
    inside = []

    class Covered(L.Callback):
        def on_train_batch_end(self, trainer, pl_module, *_):
            simulation = pl_module.simulation
            width = simulation.state.width_sq.sqrt()
            error = (simulation.environment.means - simulation.state.mu_hat).abs()
            inside.append(float((error <= pl_module.policy.beta * width).float().mean()))

    data = BanditDataModule(dim=5, num_arms=20, trajectories=128, num_steps=40, fresh_problems=True, one_episode=True)
    model = SoftUCBOnline(
        num_trajectories=128, dim=5, horizon=400, rounds_per_step=10, eta="auto", coldness=coldness, beta_init=beta_init
    )
    fit(model, data, callbacks=[Covered()], logger=False, limit_val_batches=0)
    late, beta = sum(inside[20:]) / 20, model.policy.beta.detach()
    print(f"{coldness} from {beta_init}: coverage {late:.3f}, beta {beta.mean():.3f} +- {beta.std():.3f}")
    assert abs(late - 0.85) < 0.08
    assert bool(((beta > beta.mean() / 2) & (beta < beta.mean() * 2)).all())


@pytest.mark.parametrize("eta", [1.0, "auto"])
def test_the_cut_into_steps_does_not_matter(eta, fit, tiny):
    def final(rounds, steps):
        model = SoftUCBOnline(num_trajectories=8, dim=3, horizon=40, rounds_per_step=rounds, eta=eta)
        fit(model, tiny(num_steps=steps, fresh_problems=True, one_episode=True), logger=False, limit_val_batches=0)
        return model

    a, b = final(1, 40), final(16, 3)  # 16 + 16 + 8
    assert a.policy.beta.equal(b.policy.beta)
    assert a.regrets.equal(b.regrets)
    assert a.axis_value == 40


def test_wrong_number_of_trajectories(fit, tiny):
    with pytest.raises(ValueError, match="num_trajectories must be the number of trajectories of the data"):
        fit(SoftUCBOnline(num_trajectories=9, dim=3, horizon=8), tiny(one_episode=True), logger=False)


def test_eta_is_a_number_or_auto():
    with pytest.raises(ValueError, match="eta must be one of 'auto', got 'best'"):
        SoftUCBOnline(eta="best")
    with pytest.raises(ValueError, match=r"target_coverage must be in \(0, 0.999\], got 0"):
        SoftUCBOnline(eta="auto", target_coverage=0.0)


def test_a_run_is_played_once(fit, tiny):
    model = SoftUCBOnline(num_trajectories=8, dim=3, horizon=24, rounds_per_step=4)
    data = tiny(fresh_problems=True, one_episode=True)
    fit(model, data, logger=False)
    with pytest.raises(ValueError, match="all 24 rounds have been played; create a new module"):
        fit(model, data, logger=False)


@pytest.mark.long
@pytest.mark.parametrize("dim", [10, 20])
def test_it_beats_linucb_at_eq_5s_radius_by_far(dim, fit):
    """eta 1, lr 0.1, 256 problems, T = 1024: less than half of its regret, on the same problems and noise."""
    data = BanditDataModule(dim=dim, trajectories=256, num_steps=32, fresh_problems=True, one_episode=True)
    model = SoftUCBOnline(num_trajectories=256, dim=dim, eta=1.0, lr=0.1)
    fit(model, data, logger=False, limit_val_batches=0)
    episode = data.episode("train", 0, 256)
    noise, action = episode.generators(torch.device("cpu"))
    baseline = LinUCB.theoretical(dim, horizon=1024, subgaussian_r=0.5, fail_prob=0.01)
    other = rollout(baseline, episode.problem, horizon=1024, generator=action, noise_generator=noise).regret.sum(0)
    print(f"d {dim}: online {model.final_regret:.1f}, LinUCB {other.mean():.1f}")
    assert model.final_regret < 0.5 * other.mean()
