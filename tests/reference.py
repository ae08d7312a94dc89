"""Slow literal transcriptions of the paper's equations: loops over arms, plain floats, one bandit at a time."""

import math

import numpy as np


def estimates(arms, V, b):
    """Sec. 4.1: theta_hat = V^-1 b, mu_hat_i = x_i . theta_hat, width_i = sqrt(x_i^T V^-1 x_i)."""
    inverse = np.linalg.inv(V)
    theta_hat = inverse @ b
    mu_hat = [float(x @ theta_hat) for x in arms]
    width = [math.sqrt(float(x @ inverse @ x)) for x in arms]
    return mu_hat, width


def index(mu_hat, width, beta, allowed):
    """Eqs. 6-7 with i_star, the arm of the largest lower bound among the allowed ones."""
    i_star = max((i for i in range(len(mu_hat)) if allowed[i]), key=lambda i: mu_hat[i] - beta * width[i])
    S = []
    for i in range(len(mu_hat)):
        phi = width[i] + width[i_star]
        gap_hat = mu_hat[i_star] - mu_hat[i]
        S.append(beta * phi - gap_hat)
    return S


def coldness(S, delta, allowed):
    """Eq. 9 with departure D1."""
    num_low = sum(1 for s, ok in zip(S, allowed, strict=True) if ok and s < 0)
    s_max = max(s for s, ok in zip(S, allowed, strict=True) if ok)
    if num_low == 0 or s_max <= 0:
        return 0.0
    return math.log(delta * num_low / (1 - delta)) / s_max


def smooth_coldness(S, delta, allowed, kappa=0.1):
    """Departure D6."""
    s_max = max(s for s, ok in zip(S, allowed, strict=True) if ok)
    if s_max <= 0:
        return 0.0
    n = sum(math.exp(-max(s, 0.0) / (kappa * s_max)) for s, ok in zip(S, allowed, strict=True) if ok)
    return math.log(1 + n * delta / (1 - delta)) / s_max


def probabilities(S, gamma, allowed):
    """Eq. 8 over the allowed arms."""
    top = max(gamma * s for s, ok in zip(S, allowed, strict=True) if ok)
    mass = [math.exp(gamma * s - top) if ok else 0.0 for s, ok in zip(S, allowed, strict=True)]
    return [m / sum(mass) for m in mass]


def reward_gradient(S, mu_hat, width, gamma, beta, allowed):
    """Eq. 13 without its eta part, one round, as printed: phi and not width."""
    i_star = max((i for i in range(len(mu_hat)) if allowed[i]), key=lambda i: mu_hat[i] - beta * width[i])
    arms = [i for i in range(len(mu_hat)) if allowed[i]]
    phi = [width[i] + width[i_star] for i in range(len(mu_hat))]
    top = max(gamma * S[i] for i in arms)
    total = sum(math.exp(gamma * S[j] - top) for j in arms)
    mean = sum(gamma * phi[j] * math.exp(gamma * S[j] - top) for j in arms) / total
    return sum(math.exp(gamma * S[i] - top) / total * mu_hat[i] * (gamma * phi[i] - mean) for i in arms)


class Bandit:
    """Algorithm 1, one bandit, step by step."""

    def __init__(self, arms, *, beta, delta, alpha, mode, allowed=None):
        self.arms, self.beta, self.delta, self.mode = arms, beta, delta, mode
        self.allowed = [True] * len(arms) if allowed is None else list(allowed)
        self.V, self.b = alpha * np.eye(arms.shape[1]), np.zeros(arms.shape[1])
        self.gamma_before = 0.0

    def step(self):
        """Steps 1-2: everything that round t decides on."""
        self.mu_hat, self.width = estimates(self.arms, self.V, self.b)
        self.S = index(self.mu_hat, self.width, self.beta, self.allowed)
        if self.mode == "smooth":
            fresh = smooth_coldness(self.S, self.delta, self.allowed)
        else:
            fresh = coldness(self.S, self.delta, self.allowed)
        self.gamma = self.gamma_before if self.mode == "lagged" else fresh
        self.gamma_before = fresh
        self.probs = probabilities(self.S, self.gamma, self.allowed)
        return self

    def pull(self, arm, reward):
        """Step 4."""
        self.V = self.V + np.outer(self.arms[arm], self.arms[arm])
        self.b = self.b + self.arms[arm] * reward
