"""A beta that learns while it serves."""

import math

import pytest
import torch
from torch import nn

from torch_softucb import LinUCB, SoftUCBHead, SoftUCBPolicy
from torch_softucb.errors import NumericalError
from torch_softucb.recommend import OnlineBeta

D = torch.double


def test_beta_learns_while_it_serves(seeded):
    """OnlineBeta is Eq. 15 by loops; a batch of N moves beta by the mean of N rounds."""
    policy = SoftUCBPolicy(3, beta_init=0.4, dtype=D)
    ours = SoftUCBHead(nn.Identity(), policy)
    learner = OnlineBeta(policy, horizon=60, eta=0.7, lr=0.2)
    g, past, beta = seeded(0), 0.0, 0.4
    for step in range(8):
        features = torch.randn(5, 4, 3, dtype=D, generator=g)
        decision = ours(features)
        slopes = []
        for n in range(5):
            p, m, w = decision.probs[n].tolist(), decision.mu_hat[n].tolist(), decision.width[n].tolist()
            mean = sum(a * b for a, b in zip(p, w, strict=True))
            slopes.append(sum(a * b * float(decision.gamma[n]) * (c - mean) for a, b, c in zip(p, m, w, strict=True)))
        past += sum(slopes)
        t, width = 5 * (step + 1), float(decision.width.sum(-1).mean())
        beta = max(0.0, beta + 0.2 * (past + (60 - t) * sum(slopes) / 5 + 0.7 * width) / 60)
        learner.step(decision)
        assert float(policy.beta.detach()) == pytest.approx(beta, abs=1e-12)
        served = ours.serve(decision)
        ours.feedback(served.id, torch.randn(5, dtype=D, generator=g))
    twin = OnlineBeta(policy, horizon=60)
    twin.load_state_dict(learner.state_dict())
    assert twin.decisions == 40
    for _ in range(20):
        learner.step(ours(features))
    assert learner.decisions == 60  # beyond the horizon beta stays
    with pytest.raises(TypeError, match="policy must be a SoftUCBPolicy, got LinUCB"):
        OnlineBeta(LinUCB(3), horizon=5)


def test_one_beta_learns_from_many_users(seeded):
    """Every user once a batch: the mean over users of Eq. 15, round by round."""
    policy = SoftUCBPolicy(3, beta_init=0.4, dtype=D)
    policy.reset(batch_shape=(6,))
    learner = OnlineBeta(policy, horizon=10, eta=0.5, lr=0.3)
    g, past, beta = seeded(0), torch.zeros(6, dtype=D), 0.4
    for t in range(1, 9):
        features = torch.randn(6, 4, 3, dtype=D, generator=g)
        decision = policy(features, bandit=torch.arange(6))
        spread = decision.width - (decision.probs * decision.width).sum(-1, keepdim=True)
        slope = (decision.gamma.unsqueeze(-1) * decision.probs * decision.mu_hat * spread).sum(-1).detach()
        past += slope
        step = (past + (10 - t) * slope + 0.5 * decision.width.sum(-1).detach()) / 10
        beta = max(0.0, beta + 0.3 * float(step.mean()))
        learner.step(decision)
        assert float(policy.beta.detach()) == pytest.approx(beta, abs=1e-12)
        policy.update(features[:, 0], torch.randn(6, dtype=D, generator=g), bandit=torch.arange(6))


def test_eta_tunes_itself_while_it_serves(seeded):
    """Eight batches by loops: residuals of all users pooled, rewards a batch late, beta and eta after every decision."""
    policy = SoftUCBPolicy(3, beta_init=0.4, coldness="smooth", dtype=D)
    policy.reset(batch_shape=(6,))
    ours, users = SoftUCBHead(nn.Identity(), policy), torch.arange(6)
    learner = OnlineBeta(policy, horizon=10, eta="auto", target_coverage=0.9, lr=0.3)
    g, past, beta, log_eta = seeded(0), 0.0, 0.4, 0.0
    weight, squares, late = 1.0, (0.4 / 1.6448536269514722) ** 2, []
    for t in range(1, 9):
        decision = ours(torch.randn(6, 4, 3, dtype=D, generator=g), bandit=users)
        spread = decision.width - (decision.probs * decision.width).sum(-1, keepdim=True)
        slopes = (decision.gamma.unsqueeze(-1) * decision.probs * decision.mu_hat * spread).sum(-1)
        slope = float(slopes.detach().mean())
        past += slope
        part, penalty = (past + (10 - t) * slope) / 10, float(decision.width.sum(-1).mean()) / 10
        kappa = math.sqrt(squares / weight)
        covered = math.erf(beta / kappa / math.sqrt(2))
        assert float(learner.coverage) == pytest.approx(covered, abs=1e-10)
        error = math.log(9) - math.log(covered / (1 - covered))
        up = math.exp(log_eta + 2.5 * error) * penalty
        direction = math.tanh(1.25 * error) if part == 0 else (up - abs(part)) / (up + abs(part))
        log_eta += 0.25 * error if part else 0.0
        beta = max(0.0, beta + 0.3 * (beta + kappa) * direction)
        learner.step(decision)
        assert float(policy.beta.detach()) == pytest.approx(beta, abs=1e-10)
        assert learner.eta == pytest.approx(math.exp(log_eta), abs=1e-10)
        late.append(ours.serve(decision))
        if len(late) < 2:
            continue
        served, reward = late.pop(0), torch.randn(6, dtype=D, generator=g)
        now = policy(served.x.unsqueeze(1), bandit=users)
        for n in range(6):
            w2 = float(now.width[n]) ** 2
            weight, squares = weight + w2, squares + w2 * float(reward[n] - now.mu_hat[n]) ** 2 / (1 + w2)
        learner.observe(served.x, reward, bandit=users)
        ours.feedback(served.id, reward)
    twin = OnlineBeta(policy, horizon=10, eta="auto", target_coverage=0.9)
    twin.load_state_dict(learner.state_dict())
    assert twin.coverage.equal(learner.coverage)


def test_online_beta_refuses_what_it_cannot_learn():
    fixed, auto = OnlineBeta(SoftUCBPolicy(2), horizon=5), OnlineBeta(SoftUCBPolicy(2), horizon=5, eta="auto")
    with pytest.raises(ValueError, match=r"OnlineBeta.observe: only available with eta='auto'"):
        fixed.observe(torch.ones(1, 2), torch.ones(1))
    with pytest.raises(ValueError, match="eta must be one of 'auto', got 'best'"):
        OnlineBeta(SoftUCBPolicy(2), horizon=5, eta="best")
    before = auto.dual.squares.clone()
    with pytest.raises(ValueError, match="reward must be finite"):
        auto.observe(torch.ones(1, 2), torch.tensor([math.nan]))
    with pytest.raises(ValueError, match=r"reward must have shape \(3,\), got \(2,\)"):
        auto.observe(torch.ones(3, 2), torch.ones(2))
    assert auto.dual.squares.equal(before)
    with pytest.raises(ValueError, match="policy must have one beta for all"):
        OnlineBeta(SoftUCBPolicy(2, beta_init=torch.ones(3)), horizon=5)


def test_online_learning_says_that_it_needs_a_number():
    with pytest.raises(ValueError, match="policy must have one beta for all, got a module"):
        OnlineBeta(SoftUCBPolicy.pretrained(4), horizon=10)


def test_a_step_to_a_beta_that_is_not_finite_is_refused():
    policy = SoftUCBPolicy(2, dtype=D)
    learner = OnlineBeta(policy, horizon=5, eta=1e10, lr=1e300)
    with pytest.raises(NumericalError, match="beta would become inf; nothing was changed; use a smaller lr"):
        learner.step(policy(torch.eye(2, dtype=D)))
    assert policy.beta == 1
    assert learner.decisions == 0
