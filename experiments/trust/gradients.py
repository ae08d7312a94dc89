"""R5: derivatives, against finite differences and against each other."""

import math

import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from experiments.trust.goal import Result, Size, goal
from torch_softucb import SoftUCBPolicy
from torch_softucb import functional as F

_EDGES = ("mask", "ties", "one arm", "beta 0", "gamma 0", "plain")


def _case(edge: str, generator: torch.Generator) -> tuple[list[Tensor], Tensor | None]:
    """Draw beta, mu_hat, width and gamma, and a mask."""
    batch = (2,)
    k = 1 if edge == "one arm" else int(torch.randint(2, 7, (), generator=generator))
    mu_hat = torch.randn(*batch, k, generator=generator, dtype=torch.double)
    width = torch.rand(*batch, k, generator=generator, dtype=torch.double) + 0.01
    if edge == "ties":
        mu_hat[..., 0], width[..., 0] = mu_hat[..., -1], width[..., -1]
    beta = torch.rand(batch, generator=generator, dtype=torch.double) * (edge != "beta 0")
    gamma = 4 * torch.rand(batch, generator=generator, dtype=torch.double) * (edge != "gamma 0")
    mask = None
    if edge == "mask":
        mask = torch.rand(*batch, k, generator=generator) < 0.6
        mask[..., 0] = True
    return [value.requires_grad_() for value in (beta, mu_hat, width, gamma)], mask


def _closed_form_error(inputs: list[Tensor], mask: Tensor | None) -> float:
    """Largest difference between the closed form of Eq. 13 and autograd."""
    beta, mu_hat, width, gamma = inputs
    index = F.soft_ucb_index(mu_hat, width, beta, mask=mask).detach()
    closed = F.reward_and_gradient(F.arm_probabilities(index, gamma, mask=mask), mu_hat, width, gamma)[1]
    logits = gamma.unsqueeze(-1) * (mu_hat + beta.unsqueeze(-1) * width)
    logits = logits if mask is None else logits.masked_fill(~mask, -math.inf)
    plain = (logits.softmax(-1) * mu_hat).sum(-1)
    (slope,) = torch.autograd.grad(plain.sum(), beta)
    return float((closed.detach() - slope).abs().max())


def _nan_gradients(generator: torch.Generator, edge: str) -> int:
    """Number of NaN among the gradients of everything that a decision offers."""
    dim, k = 3, 1 if edge == "one arm" else 5
    count = 0
    for coldness in ("current", "smooth"):
        policy = SoftUCBPolicy(dim, beta_init=0.0 if edge == "beta 0" else 0.5, coldness=coldness, dtype=torch.double)
        policy.update(torch.randn(8, dim, generator=generator).double(), torch.randn(8, generator=generator).double())
        arms = torch.randn(k, dim, generator=generator, dtype=torch.double)
        if edge == "ties":
            arms[0] = arms[-1]
        arms.requires_grad_()
        mask = torch.tensor([True] + [False] * (k - 1)) if edge == "mask" else None
        decision = policy(arms, mask=mask)
        for value in (decision.log_prob(torch.tensor(0)), decision.entropy(), (decision.probs * decision.mu_hat).sum()):
            grads = torch.autograd.grad(value, [arms, policy.raw_beta], retain_graph=True, allow_unused=True)
            count += sum(int((~grad.isfinite()).sum()) for grad in grads if grad is not None)
    return count


@goal(
    "R5",
    claim="""First and second derivatives agree with finite differences at torch's default tolerances in 200 of 200
    random cases; the closed form of the paper's gradient equals autograd to 1e-10; no gradient is NaN.""",
    method="""`torch.autograd.gradcheck` and `gradgradcheck` of the expected reward in beta, mean, width and coldness,
    over random cases that include masks, tied arms, a single arm, beta 0 and coldness 0. The closed form is compared
    with autograd on a plain softmax. Gradients of log-probability, entropy and expected reward through a policy are
    searched for NaN.""",
)
def derivatives(size: Size) -> Result:
    generator = torch.Generator().manual_seed(size.seed)
    count = size.of(200, 24)
    right, worst, nan = 0, 0.0, 0
    for i in range(count):
        edge = _EDGES[i % len(_EDGES)]
        inputs, mask = _case(edge, generator)

        def value(*v: Tensor, mask: Tensor | None = mask) -> Tensor:
            return F.expected_reward(v[0], v[1], v[2], v[3], mask=mask)

        right += gradcheck(value, inputs, raise_exception=False) and gradgradcheck(value, inputs, raise_exception=False)
        worst = max(worst, _closed_form_error(inputs, mask))
        nan += _nan_gradients(generator, edge)
    met = right == count and worst <= 1e-10 and nan == 0
    return Result(met, f"{right} of {count} cases right; closed form within {worst:.1e}; {nan} NaN gradients")
