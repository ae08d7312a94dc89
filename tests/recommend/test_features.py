"""Normalisation and intercept."""

import pytest
import torch
from torch import nn

from tests.recommend.cases import head, requests
from torch_softucb import SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import FeatureMap

D = torch.double


def test_normalisation_is_fitted_kept_and_undone_by_nothing(seeded):
    features = 100 + torch.tensor([1e-3, 1.0, 1e3]) * torch.randn(4000, 3, generator=seeded(0))
    ours = SoftUCBHead(nn.Identity(), SoftUCBPolicy(4), intercept=True, normalise=True)
    ours.calibrate([(features[:1000],), (features[1000:],)])
    seen = ours.encode(features.view(-1, 5, 3)).view(-1, 4)[:, :3] * (2 * 3) ** 0.5
    torch.testing.assert_close(seen.mean(0), torch.zeros(3), atol=1e-2, rtol=0)
    torch.testing.assert_close(seen.std(0), torch.ones(3), atol=1e-2, rtol=0)
    twin = SoftUCBHead(nn.Identity(), SoftUCBPolicy(4), intercept=True, normalise=True)
    twin.load_state_dict(ours.state_dict())
    assert twin.encode(features[:5]).equal(ours.encode(features[:5]))
    with pytest.raises(ValueError, match="at least one batch of features"):
        FeatureMap(2).fit([])
    flat = FeatureMap(2, normalise=True)
    flat.fit([torch.tensor([[3.0, 1.0], [3.0, 2.0]])])  # a feature that does not vary keeps its scale
    assert flat.scale[0] == 1


def test_a_map_and_a_state_that_differ_are_refused():
    plain, ours = head(), head(normalise=True)
    with pytest.raises(ValueError, match="the state is of a head with"):
        plain.load_state_dict(ours.state_dict())
    with pytest.raises(ValueError, match="normalise=False"):
        plain.calibrate([requests(3, 4)])
    ours.serve(ours(*requests(3, 4)))
    with pytest.raises(ValueError, match="3 decisions wait for feedback"):
        ours.calibrate([requests(3, 4)])
    ours.drop(ours.open_decisions)
    ours.calibrate([requests(3, 4)])
    far = FeatureMap(1, normalise=True)
    values = 1e6 + 1e-2 * torch.randn(4000, 1, dtype=D, generator=torch.Generator().manual_seed(0))
    far.fit([values[:0], values])
    assert far(values).mean().abs() < 1e-6
    with pytest.raises(ValueError, match=r"features must have shape \(..., 1\)"):
        far.fit([torch.zeros(4, 2)])


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_features_are_the_formula_with_and_without_gradient(intercept, normalise, dtype, seeded):
    features = FeatureMap(3, intercept=intercept, normalise=normalise)
    if normalise:
        features.fit([torch.randn(50, 3, generator=seeded(0), dtype=dtype) * 2 + 1])
    values = torch.randn(2, 5, 3, generator=seeded(1), dtype=dtype, requires_grad=True)
    before = values.detach().clone()
    shrink = 2**0.5 if intercept else 1.0
    mean = features.mean.to(dtype) if normalise else 0.0
    factor = (1 / (features.scale * 3**0.5 * shrink) if normalise else torch.ones(3, dtype=D) / shrink).to(dtype)
    want = (before - mean) * factor
    if intercept:
        want = torch.cat((want, torch.full((2, 5, 1), 1 / shrink, dtype=dtype)), -1)
    got = features(values)
    assert got.equal(want)
    with torch.no_grad():
        assert features(values).equal(want)
    assert values.equal(before)  # the encoder's output is not written over
    got.sum().backward()
    assert values.grad.equal(factor.expand(2, 5, 3))


def test_the_map_stays_float64_when_the_head_is_converted():
    features = FeatureMap(2, normalise=True).to(torch.float16)
    assert features.mean.dtype == features.scale.dtype == torch.float64
