import lightning as L
import pytest
import torch

from tests import reference
from torch_softucb import ScheduleBeta, SegmentBeta, SituationBeta, rollout, synthetic_problem
from torch_softucb.learning.dual import Dual
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.paper import paper
from torch_softucb.training import BetaWarning, SoftUCBOffline

RECORD = ["mu_hat", "width", "gamma"]


def test_one_steps_gradient_is_eq_13_plus_the_eta_part_by_loops(tiny):
    model = SoftUCBOffline(dim=3, horizon=16, eta=0.05, beta_init=0.6).double()
    beta = float(model.policy.beta)  # 0.6 as float32 has it
    episode = tiny(fresh_problems=True).episode("train", 0, 8)
    episode = Episode(episode.problem.to(torch.double), episode.noise_seed, episode.action_seed)
    signal = paper(model.policy, episode, horizon=16, eta=0.05, record=RECORD)
    signal.loss.backward()
    kept = signal.trajectory.records  # every round: horizon // 16 = 1
    want = objective = 0.0
    for t in range(16):
        for r in range(8):
            m, w, c = (kept[name][t, r].tolist() for name in RECORD)
            S = reference.index(m, w, beta, [True] * 6)
            want += reference.reward_gradient(S, m, w, c, beta, [True] * 6) + 0.05 * sum(w)
            p = reference.probabilities(S, c, [True] * 6)
            objective += sum(a * b for a, b in zip(p, m, strict=True)) + 0.05 * beta * sum(w)
    assert model.policy.raw_beta.grad.item() == pytest.approx(-want / 16 / 8, abs=1e-10)
    assert signal.loss.item() == pytest.approx(-objective / 16 / 8, abs=1e-10)
    assert (signal.reward_gradient + signal.penalty_gradient).item() == pytest.approx(want / 16 / 8, abs=1e-10)


def test_sgd_takes_the_papers_step(tiny, fit):
    class Watch(L.Callback):
        def on_before_optimizer_step(self, trainer, pl_module, optimizer):
            self.before, self.grad = pl_module.policy.raw_beta.item(), pl_module.policy.raw_beta.grad.item()

        def on_train_batch_end(self, trainer, pl_module, *_):
            assert pl_module.policy.raw_beta.item() == pytest.approx(self.before - 0.5 * self.grad, rel=1e-6)
            self.steps = getattr(self, "steps", 0) + 1

    watch = Watch()
    fit(SoftUCBOffline(dim=3, horizon=16, lr=0.5), tiny(), callbacks=[watch], logger=False)
    assert watch.steps == 6


def _settled(dim, beta_init, eta, steps, fit):
    betas = []

    class Watch(L.Callback):
        def on_train_batch_end(self, trainer, pl_module, *_):
            betas.append(pl_module.mean_beta)

    from torch_softucb.training import BanditDataModule

    data = BanditDataModule(dim=dim, trajectories=128, num_steps=steps, fresh_problems=True)
    model = SoftUCBOffline(dim=dim, horizon=1024, eta=eta, lr=4.0, beta_init=beta_init)
    fit(model, data, callbacks=[Watch()], logger=False, limit_val_batches=0)
    return torch.tensor(betas[-steps // 5 :])


@pytest.mark.long
@pytest.mark.parametrize(("dim", "low", "high"), [(5, 0.7, 1.0), (10, 0.6, 0.9)])
@pytest.mark.parametrize("beta_init", [0.0, 1.0])
def test_beta_settles_where_it_should(dim, low, high, beta_init, fit):
    """eta 0.002, K = 50, delta 0.99, T = 1024: stable within 5%, from both sides."""
    last = _settled(dim, beta_init, 0.002, 40, fit)
    print(f"d {dim} from {beta_init}: {last.mean():.3f}, standard deviation {last.std() / last.mean():.1%}")
    assert low < last.mean() < high
    assert last.std() < 0.05 * last.mean()


@pytest.mark.slow
def test_a_large_eta_runs_away_and_says_so(fit):
    with pytest.warns(BetaWarning, match="Lower eta"):
        last = _settled(10, 1.0, 0.02, 10, fit)
    assert last.isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("start", [1e-5, 1e-1])
def test_eta_finds_the_target_coverage_from_any_start(start, tiny, fit):
    """Held-out coverage of the learned beta, from etas four decades apart."""
    model = SoftUCBOffline(dim=3, horizon=96, eta="auto", target_coverage=0.9, coldness="smooth", compile="native")
    model.eta = Dual(0.9, eta_init=start)
    fit(model, tiny(trajectories=128, num_steps=60, num_arms=12, fresh_problems=True, eval_trajectories=8))
    problem = synthetic_problem(num_problems=2048, num_arms=12, dim=3, generator=torch.Generator().manual_seed(77))
    played = rollout(
        model.frozen_policy(),
        problem,
        horizon=96,
        generator=torch.Generator().manual_seed(78),
        scores=True,
        compile="native",
    )
    covered = float(played.scores["coverage"].mean())
    print(f"eta from {start:g}: beta {model.mean_beta:.3f}, eta {model.present_eta:.2g}, coverage {covered:.3f}")
    assert abs(covered - 0.9) < 0.02


@pytest.mark.long
@pytest.mark.parametrize("estimator", ["trajectory", "common_random_numbers"])
def test_without_eta_both_sides_end_at_the_same_beta(estimator, tiny, fit):
    """From below and from above: within 15% of each other on a small problem."""
    ends = []
    for start in (0.05, 3.0):
        model = SoftUCBOffline(
            dim=3, horizon=96, estimator=estimator, coldness="smooth", beta_init=start, lr=0.2, compile="native"
        )
        fit(model, tiny(trajectories=2048, num_steps=40, num_arms=12, fresh_problems=True, eval_trajectories=8))
        ends.append(model.mean_beta)
    print(f"{estimator}: {ends[0]:.3f} from below, {ends[1]:.3f} from above")
    assert abs(ends[0] - ends[1]) < 0.15 * max(ends)
    assert min(ends) > 0.2
    assert max(ends) < 1.2


def test_eta_is_a_number_or_auto():
    with pytest.raises(ValueError, match="eta must be"):
        SoftUCBOffline(eta="best")
    with pytest.raises(ValueError, match=r"target_coverage must be in \(0, 0.999\], got 1"):
        SoftUCBOffline(eta="auto", target_coverage=1.0)
    with pytest.raises(ValueError, match="estimator must be"):
        SoftUCBOffline(estimator="reinforce")


def test_a_checkpoint_with_a_module_says_what_it_needs(tiny, fit, tmp_path):
    model = SoftUCBOffline(
        dim=3, horizon=12, beta_init=ScheduleBeta(12), coldness="smooth", estimator="trajectory", learn_delta=True
    )
    fit(model, tiny(num_steps=2)).save_checkpoint(tmp_path / "schedule.ckpt")
    with pytest.raises(ValueError, match="give the module that it was trained with as beta_init"):
        SoftUCBOffline.load_from_checkpoint(tmp_path / "schedule.ckpt", weights_only=True)
    again = SoftUCBOffline.load_from_checkpoint(tmp_path / "schedule.ckpt", beta_init=ScheduleBeta(12), weights_only=True)
    assert torch.equal(again.policy.beta_module.log_beta, model.policy.beta_module.log_beta)


def test_a_module_takes_the_runs_horizon_and_small_steps():
    """Whatever the estimator: SGD at a rate made for one number would throw a network's weights away."""
    for kind in ({}, {"eta": "auto"}, {"estimator": "trajectory", "coldness": "smooth"}):
        model = SoftUCBOffline(dim=3, horizon=77, beta_init=SituationBeta(horizon=1024), **kind)
        assert model.policy.beta_module.horizon == 77
        assert model.lr == 0.02
        assert isinstance(model.default_optimizer(), torch.optim.Adam)


def test_segments_are_played_at_their_present_mean():
    module = SegmentBeta(torch.tensor([0, 1, 1, 1]))
    model = SoftUCBOffline(dim=3, horizon=12, beta_init=module)
    model.played_beta.fill_(1.0)
    with torch.no_grad():
        module.raw.copy_(torch.tensor([0.2, 3.0]))
    assert float(model.frozen_policy().beta) == pytest.approx((0.2 + 3 * 3.0) / 4)


def test_what_a_network_played_is_in_the_checkpoint(tiny, fit, tmp_path):
    kind = {"dim": 3, "horizon": 12, "coldness": "smooth", "estimator": "trajectory"}
    model = SoftUCBOffline(beta_init=SituationBeta(horizon=12, init=0.5), **kind)
    fit(model, tiny(num_steps=2)).save_checkpoint(tmp_path / "network.ckpt")
    again = SoftUCBOffline.load_from_checkpoint(
        tmp_path / "network.ckpt", beta_init=SituationBeta(horizon=12, init=0.5), weights_only=True
    )
    assert again.mean_beta == model.mean_beta != 0.5


def test_the_papers_estimator_needs_no_number_of_steps():
    """With a loader of one's own that could be endless: asking would open it, and spoil a resumed run's place."""
    optimizer = SoftUCBOffline(dim=3, horizon=4).configure_optimizers()  # no trainer to ask
    assert isinstance(optimizer, torch.optim.SGD)
