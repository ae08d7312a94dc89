"""Steps that are shares of beta."""

import copy
import math

import pytest
import torch

from torch_softucb import ScheduleBeta, SegmentBeta, SoftUCBPolicy
from torch_softucb.learning.log_adam import MIN_VALUE, RelativeAdam

D = torch.float64


def _descend(parameter, optimizer, loss, steps=20):
    path = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss(parameter).backward()
        optimizer.step()
        path.append(parameter.detach().clone())
    return torch.stack(path)


def _off(value):
    return ((value - 1) ** 2).sum()


def test_it_is_adam_on_the_logarithm():
    start = torch.tensor([0.3, 2.0], dtype=D)
    beta, log_beta = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.log())
    own = _descend(beta, RelativeAdam([{"params": [beta], "positive": True}], lr=0.1), _off)
    plain = torch.optim.Adam([log_beta], lr=0.1, betas=(0.8, 0.95), eps=1e-12)
    want = _descend(log_beta, plain, lambda value: _off(value.exp())).exp()
    torch.testing.assert_close(own, want, atol=1e-10, rtol=0)


def test_parameters_that_may_have_any_sign_get_plain_adam():
    free, other = (torch.nn.Parameter(torch.tensor([-1.0, 3.0], dtype=D)) for _ in range(2))
    own = _descend(free, RelativeAdam([free], lr=0.1), _off)
    torch.testing.assert_close(own, _descend(other, torch.optim.Adam([other], lr=0.1, betas=(0.8, 0.95)), _off))


def test_a_closure_sees_the_parameter_itself():
    beta = torch.nn.Parameter(torch.tensor(2.0))
    optimizer = RelativeAdam([{"params": [beta], "positive": True}], lr=0.1)
    seen = []

    def closure():
        seen.append(float(beta.detach()))
        optimizer.zero_grad()
        loss = beta.square()
        loss.backward()
        return loss

    assert float(optimizer.step(closure)) == 4.0
    assert seen == [2.0]
    assert float(beta.detach()) == pytest.approx(2 * math.exp(-0.1))


def test_a_beta_of_0_sets_out_and_the_others_are_left_where_they_are():
    beta = torch.nn.Parameter(torch.tensor([0.0, 0.001, 1.0], dtype=D))
    optimizer = RelativeAdam([{"params": [beta], "positive": True}], lr=0.1)
    beta.grad = -torch.ones(3, dtype=D)
    optimizer.step()
    torch.testing.assert_close(beta.detach(), torch.tensor([MIN_VALUE, 0.001, 1.0], dtype=D) * math.exp(0.1))


@pytest.mark.parametrize("beta_init", [0.5, SegmentBeta(torch.tensor([0, 1])), ScheduleBeta(10)])
def test_of_a_policy_everything_moves_once_and_betas_by_shares(beta_init):
    policy = SoftUCBPolicy(2, beta_init=copy.deepcopy(beta_init), learn_delta=True, coldness="smooth")
    optimizer = RelativeAdam.of(policy, lr=0.1)
    before = {name: value.detach().clone() for name, value in policy.named_parameters()}
    for parameter in policy.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    for name, value in policy.named_parameters():
        stands_for_beta = any(value is other for other in policy.positive_parameters)
        want = before[name] * math.exp(-0.1) if stands_for_beta else before[name] - 0.1
        torch.testing.assert_close(value.detach(), want)


def test_it_goes_on_from_its_state():
    beta = torch.nn.Parameter(torch.tensor(2.0, dtype=D))
    optimizer = RelativeAdam([{"params": [beta], "positive": True}], lr=0.1)
    _descend(beta, optimizer, _off, steps=5)
    other = torch.nn.Parameter(beta.detach().clone())
    resumed = RelativeAdam([{"params": [other], "positive": True}], lr=0.1)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert torch.equal(_descend(beta, optimizer, _off), _descend(other, resumed, _off))


def test_with_a_number_of_steps_it_ends_at_the_mean_of_the_second_half():
    betas = [torch.nn.Parameter(torch.tensor(2.0, dtype=D)) for _ in range(2)]
    free = [torch.nn.Parameter(torch.tensor(-1.0, dtype=D)) for _ in range(2)]
    paths = []
    for beta, other, steps in zip(betas, free, (7, None), strict=True):
        optimizer = RelativeAdam([{"params": [beta], "positive": True}, {"params": [other]}], lr=0.1, steps=steps)
        paths.append([])
        for _ in range(7):
            optimizer.zero_grad()
            (_off(beta) + _off(other)).backward()
            optimizer.step()
            paths[-1].append((float(beta.detach()), float(other.detach())))
    assert paths[0][:-1] == paths[1][:-1]
    tail = paths[1][3:]  # steps 4 to 7
    assert paths[0][-1][0] == pytest.approx(math.exp(sum(math.log(beta) for beta, _ in tail) / 4))
    assert paths[0][-1][1] == pytest.approx(sum(other for _, other in tail) / 4)


def test_hooks_run_once_and_see_values_and_gradients_stay():
    torch.optim.Adam([torch.nn.Parameter(torch.ones(()))])  # torch has wrapped Adam.step by now
    beta = torch.nn.Parameter(torch.tensor(2.0))
    optimizer = RelativeAdam([{"params": [beta], "positive": True}], lr=0.1)
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append(float(beta.detach())))
    beta.square().backward()
    optimizer.step()
    assert seen == [pytest.approx(2 * math.exp(-0.1))]
    assert float(beta.grad) == 4.0


def test_a_group_that_says_nothing_is_not_positive():
    beta, other = torch.nn.Parameter(torch.tensor(2.0)), torch.nn.Parameter(torch.tensor(-1.0))
    optimizer = RelativeAdam([{"params": [beta], "positive": True}], lr=0.1)
    optimizer.add_param_group({"params": [other]})
    (beta.square() + other.square()).backward()
    optimizer.step()
    assert float(other.detach()) == pytest.approx(-0.9)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("exp_avg", torch.tensor([float("nan")] * 2)),
        ("exp_avg", torch.ones(3)),
        ("exp_avg_sq", -torch.ones(2)),
        ("exp_avg_sq", torch.ones(2, dtype=torch.int64)),
        ("tail", torch.tensor([float("inf")] * 2)),
        ("step", torch.tensor(-1.0)),
        ("hook", torch.ones(2)),
    ],
)
def test_a_state_that_cannot_be_is_refused_and_changes_nothing(name, value):
    beta = torch.nn.Parameter(torch.ones(2))
    optimizer = RelativeAdam([{"params": [beta], "positive": True}], lr=0.1, steps=4)
    beta.square().sum().backward()
    optimizer.step()
    before, state = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(optimizer.state_dict())
    state["state"][0][name] = value
    with pytest.raises(ValueError, match=r"RelativeAdam.load_state_dict: the state of parameter 0 must be finite moments"):
        optimizer.load_state_dict(state)
    assert str(optimizer.state_dict()) == str(before)
