"""Hypothesis strategies that several files share. Numbers come from a drawn seed: quick, and cases replay by their seed."""

import torch
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**31 - 1)
BETAS = st.just(0.0) | st.floats(1e-3, 5)
DELTAS = st.floats(0.5, 0.9999)
SCALES = st.sampled_from([1e-3, 1.0, 30.0])


class Numbers:
    """Random float64 tensors from one seed."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.generator, dtype=torch.double)

    def uniform(self, *shape):
        return torch.rand(shape, generator=self.generator, dtype=torch.double)

    def integers(self, high, *shape):
        return torch.randint(high, shape, generator=self.generator)

    def permutation(self, size):
        return torch.randperm(size, generator=self.generator)

    def mask(self, *shape):
        """At least one arm is allowed in every row."""
        mask = torch.rand(shape, generator=self.generator) > 0.4
        return mask.scatter(-1, self.integers(shape[-1], *shape[:-1], 1), True)

    def probabilities(self, *shape):
        """Rows that sum to 1, some entries 0."""
        weights = self.uniform(*shape) * self.mask(*shape)
        return weights / weights.sum(-1, keepdim=True)


NUMBERS = SEEDS.map(Numbers)
