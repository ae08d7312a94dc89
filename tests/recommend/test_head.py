"""The head: what it decides, what it remembers, what it refuses."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from tests.recommend.cases import Towers, head, requests
from torch_softucb import EXP3, EpsilonGreedy, LinTS, LinUCB, NumericalError, SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import DecisionPath, FeatureMap, Replay

D = torch.double


def _state(of):
    return {name: value.clone() for name, value in of.state_dict().items()}


def _same(one, other):
    return all(value.equal(other[name]) for name, value in one.items())


def test_decisions_are_the_policys_on_the_encoders_features():
    ours = head(intercept=True)
    user, items = requests(6, 9)
    served = ours.serve(ours(user, items))
    ours.feedback(served.id, torch.randn(6, dtype=D))
    decision = ours(user, items)
    features = torch.cat((ours.encoder(user, items), torch.ones(6, 9, 1, dtype=D)), -1) / 2**0.5
    want = ours.policy(features)
    torch.testing.assert_close(decision.probs, want.probs)
    torch.testing.assert_close(served.x, features[torch.arange(6), served.arm])
    torch.testing.assert_close(served.propensity, torch.full((6,), 1 / 9, dtype=D))
    assert served.beta == ours.policy.beta


@pytest.mark.parametrize("policy", [SoftUCBPolicy(4), LinUCB(4), LinTS(4), EpsilonGreedy(4)], ids=lambda p: type(p).__name__)
def test_any_feature_policy_serves_and_learns(policy):
    ours = head(policy)
    user, items = requests(8, 5)
    served = ours.serve(ours(user, items), k=3)
    assert served.id.shape == served.arm.shape == (8, 3)
    assert (served.propensity is None) == isinstance(policy, LinTS)
    assert ours.feedback(served.id, torch.randn(8, 3)) == 24
    assert policy.state.num_observations == 24


def test_each_user_has_statistics_of_its_own():
    ours, user = head(users=20), torch.tensor([3, 7, 3])
    items = torch.arange(15).view(3, 5)
    served = ours.serve(ours(user, items, bandit=user))
    ours.feedback(served.id, torch.ones(3, dtype=D))
    num_observations = ours.policy.state.num_observations
    assert (num_observations[3], num_observations[7], num_observations.sum()) == (2, 1, 3)


def test_draws_depend_on_seed_and_id_alone():
    user, items = requests(40, 6)
    whole, halves, other = head(seed=5), head(seed=5), head(seed=6)
    at_once = whole.serve(whole(user, items)).arm
    by_parts = torch.cat([halves.serve(halves(user[i : i + 7], items[i : i + 7])).arm for i in range(0, 40, 7)])
    assert at_once.equal(by_parts)
    assert not at_once.equal(other.serve(other(user, items)).arm)


def test_replicas_do_not_explore_in_step():
    first = head()
    second = copy.deepcopy(first)
    user, items = requests(60, 6)
    second.reseed()
    one, two = first.serve(first(user, items)), second.serve(second(user, items))
    assert not one.arm.equal(two.arm)
    assert not set(one.id.tolist()) & set(two.id.tolist())
    second.reseed(3, replica=9)
    assert second.serve(second(user, items)).id[0] == (9 << 34) + 60
    assert second.feedback(two.id, torch.ones(60, dtype=D)) == 60  # those from before are still waited for


def test_new_items_need_nothing_but_their_features():
    ours = SoftUCBHead(nn.Identity(), SoftUCBPolicy(3))
    for candidates in (2, 9, 40):
        served = ours.serve(ours(torch.randn(4, candidates, 3)))
        ours.feedback(served.id, torch.ones(4))
    assert ours(torch.randn(5, 3)).probs.shape == (5,)


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


def test_pending_pulls_narrow_the_width_and_never_the_mean():
    ours, plain = head(narrow_pending=True), head()
    user, items = requests(6, 9)
    for each in (ours, plain):
        each.feedback(each.serve(each(user, items)).id, torch.arange(6, dtype=D))
    served = ours.serve(ours(user, items))
    got, before = ours(user, items), plain(user, items)
    torch.testing.assert_close(got.mu_hat, before.mu_hat, atol=1e-12, rtol=0)
    assert (got.width <= before.width + 1e-12).all()
    assert (got.width < before.width - 1e-6).any()
    V = ours.policy.state.V + served.x.T @ served.x
    features = ours.encode(user, items)
    want = torch.einsum("nkd,de,nke->nk", features, torch.linalg.inv(V), features).sqrt()
    torch.testing.assert_close(got.width, want, atol=1e-10, rtol=0)
    ours.drop(served.id)
    torch.testing.assert_close(ours(user, items).width, before.width, atol=1e-12, rtol=0)


def test_pending_pulls_of_each_user_by_itself():
    ours, user, items = head(users=20, narrow_pending=True), torch.tensor([3, 7, 3]), torch.arange(15).view(3, 5)
    served = ours.serve(ours(user, items, bandit=user))
    asked = torch.tensor([7, 5, 3, 3])
    got = ours(asked, torch.arange(20).view(4, 5), bandit=asked)
    features = ours.encode(asked, torch.arange(20).view(4, 5))
    for row, owner in enumerate(asked.tolist()):
        mine = served.x[user == owner]
        inverse = torch.linalg.inv(torch.eye(4, dtype=D) + mine.T @ mine)
        want = torch.einsum("kd,de,ke->k", features[row], inverse, features[row]).sqrt()
        torch.testing.assert_close(got.width[row], want, atol=1e-10, rtol=0)


def test_encoder_and_beta_learn_together():
    ours = head(SoftUCBPolicy(4, beta_init=0.3, dtype=D))
    user, items = requests(30, 6)
    ours.feedback(ours.serve(ours(user, items)).id, torch.randn(30, dtype=D))
    decision = ours(user, items)
    served = ours.serve(decision)
    for loss in (ours.expected_reward(decision).mean(), decision.log_prob(served.arm).mean()):
        parameters = [ours.encoder.users, ours.encoder.items, ours.policy.raw_beta]
        for gradient in torch.autograd.grad(loss, parameters, retain_graph=True):
            assert gradient.isfinite().all()
            assert gradient.abs().sum() > 0
    torch.testing.assert_close(ours.expected_reward(decision), (decision.probs * decision.mu_hat).sum(-1))
    greedy = head(LinUCB(4, dtype=D))
    decision = greedy(user, items)
    with pytest.raises(TypeError, match="expected_reward is not available for LinUCB"):
        greedy.expected_reward(decision)


@pytest.mark.parametrize("users", [None, 20])
def test_refit_rebuilds_the_statistics_for_an_encoder_that_moved(users):
    ours = head(users=users)
    history = []
    for step in range(5):
        user, items = requests(16, 6, seed=step)
        bandit = user if users else None
        served = ours.serve(ours(user, items, bandit=bandit))
        reward = torch.randn(16, dtype=D)
        ours.feedback(served.id, reward)
        history.append(Replay((user, items), served.arm, reward, bandit))
    assert ours.refit(history) == 80
    before = ours.policy.state
    with torch.no_grad():
        ours.encoder.items.mul_(2)
    ours.refit(history)
    torch.testing.assert_close(ours.policy.state.b, 2 * before.b, atol=1e-10, rtol=0)
    eye = torch.eye(4, dtype=D)
    torch.testing.assert_close(ours.policy.state.V - eye, 4 * (before.V - eye), atol=1e-9, rtol=0)
    kept = _state(ours)
    bad = {
        "reward must be finite": {"reward": torch.full((16,), torch.nan, dtype=D)},
        r"arm must be in \[0, 6\)": {"arm": torch.full((16,), -1)},
        "arm must have shape": {"arm": torch.zeros(16, 2).long()},
    } | ({"bandit must be given": {"bandit": None}} if users else {})
    for match, change in bad.items():
        with pytest.raises(ValueError, match=match):
            ours.refit([history[0], history[1]._replace(**change)])
    with pytest.raises(ValueError, match="at least one batch is needed"):
        ours.refit(iter(()))
    assert _same(kept, _state(ours))


BAD = {
    "nan embedding": (
        lambda h: h(torch.tensor([1]), torch.tensor([[2, 3]]), bandit=torch.tensor([1])),
        r"arms must be finite.*first at \(0, 1, 0\)",
    ),
    "no user": (lambda h: h(torch.tensor([1]), torch.tensor([[2, 3]])), "bandit must be given, a tensor"),
    "no candidates": (
        lambda h: h(torch.tensor([1]), torch.zeros(1, 0, dtype=torch.long), bandit=torch.tensor([1])),
        "at least one candidate",
    ),
    "no requests": (
        lambda h: h(torch.zeros(0).long(), torch.zeros(0, 3).long(), bandit=torch.zeros(0).long()),
        "empty list",
    ),
    "mask of none": (
        lambda h: h(
            *(torch.tensor([1, 1]), torch.ones(2, 2).long()),
            mask=torch.tensor([[True, True], [False, False]]),
            bandit=torch.tensor([1, 1]),
        ),
        r"mask must allow at least one arm in every row, got 1 rows with none, the first at \(1,\)",
    ),
    "unknown user": (
        lambda h: h(torch.tensor([1]), torch.ones(1, 2).long(), bandit=torch.tensor([20])),
        r"bandit ids must be in \[0, 20\), got 20 in row 0",
    ),
    "unknown decision": (
        lambda h: h.feedback(torch.tensor([0, 77]), torch.ones(2, dtype=D)),
        r"decision 77 \(position 1\) is unknown",
    ),
    "answered before": (
        lambda h: h.feedback(torch.tensor([0, 0]), torch.ones(2, dtype=D)),
        r"decision 0 \(position 1\) was",
    ),
    "infinite reward": (
        lambda h: h.feedback(torch.tensor([0, 1]), torch.tensor([1.0, torch.inf], dtype=D)),
        r"reward must be finite, got 1 .* the first at \(1,\)",
    ),
    "reward shape": (lambda h: h.feedback(torch.tensor([0, 1]), torch.ones(1, dtype=D)), "reward must have shape"),
    "ids as floats": (lambda h: h.feedback(torch.tensor([0.0]), torch.ones(1, dtype=D)), "id must be an int64 tensor"),
    "rewards as whole numbers": (lambda h: h.feedback(torch.tensor([0]), torch.ones(1).long()), "reward must be a floating"),
    "on_repeat": (lambda h: h.feedback(torch.tensor([0]), torch.ones(1, dtype=D), on_repeat="x"), "on_repeat must be"),
    "foreign decision": (lambda h: h.serve(h.policy(torch.ones(20, 3, 4, dtype=D))), "decision must come from this head"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_names_the_row_and_changes_nothing(name):
    ours = head(users=20)
    user, items = requests(4, 5)
    ours.serve(ours(user, items, bandit=user))
    with torch.no_grad():
        ours.encoder.items[3, 0] = torch.nan
    before = _state(ours)
    act, match = BAD[name]
    with pytest.raises((ValueError, TypeError), match=match):
        act(ours)
    assert all(np.array_equal(v, before[k], equal_nan=True) for k, v in _state(ours).items())


def test_policies_and_encoders_that_do_not_fit():
    with pytest.raises(ValueError, match="which EXP3 cannot take"):
        SoftUCBHead(nn.Identity(), EXP3(3, 5, exploration=0.1))
    with pytest.raises(ValueError, match="SoftUCBPolicy with coldness='lagged' cannot take"):
        SoftUCBHead(nn.Identity(), SoftUCBPolicy(3, coldness="lagged"))
    with pytest.raises(ValueError, match="policy must have dim 2 or more"):
        SoftUCBHead(nn.Identity(), SoftUCBPolicy(1), intercept=True)
    with pytest.raises(ValueError, match=r"encoder output must have shape \(K, 3\) or \(N, K, 3\), got \(5, 2\)"):
        SoftUCBHead(nn.Identity(), SoftUCBPolicy(3))(torch.zeros(5, 2))
    with pytest.raises(TypeError, match="encoder must return a tensor"):
        SoftUCBHead(nn.Identity(), SoftUCBPolicy(3))([1.0])
    with pytest.raises(TypeError, match="policy must be a BanditPolicy, got Linear"):
        SoftUCBHead(nn.Identity(), nn.Linear(2, 2))
    with pytest.raises(TypeError, match="policy must be float32 or float64"):
        SoftUCBHead(nn.Identity(), SoftUCBPolicy(3, dtype=torch.bfloat16))
    ours = head()
    decision = ours(*requests(2, 3))
    for k in (0, 4):
        with pytest.raises(ValueError, match="k must be"):
            ours.serve(decision, k=k)
    with pytest.raises(ValueError, match=r"discount must be in \(0, 1\], got 1.5"):
        SoftUCBHead(nn.Identity(), SoftUCBPolicy(3), discount=1.5)


@pytest.mark.parametrize("users", [None, 20])
def test_export_with_any_number_of_requests_and_candidates(users):
    ours = head(users=users, intercept=True, normalise=True)
    user, items = requests(5, 7)
    bandit = {"bandit": user} if users else {}
    ours.feedback(ours.serve(ours(user, items, **bandit)).id, torch.randn(5, dtype=D))
    N, K = torch.export.Dim("N", min=1, max=4096), torch.export.Dim("K", min=1, max=4096)
    mask = torch.rand(5, 7) > 0.3
    mask[:, 0] = True
    shapes = {"inputs": ({0: N}, {0: N, 1: K}), "mask": {0: N, 1: K}} | ({"bandit": {0: N}} if users else {})
    program = torch.export.export(DecisionPath(ours), (user, items), {"mask": mask} | bandit, dynamic_shapes=shapes)
    for count, candidates in ((1, 1), (3, 2), (300, 40)):
        user, items = requests(count, candidates, seed=count)
        mask = torch.rand(count, candidates) > 0.3
        mask[:, 0] = True
        bandit = {"bandit": user} if users else {}
        got, want = program.module()(user, items, mask=mask, **bandit), ours(user, items, mask=mask, **bandit)
        for name, value in got.items():
            torch.testing.assert_close(value, getattr(want, name), atol=1e-12, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("users", [None, 20])
def test_compile_without_graph_breaks(users):
    ours = head(users=users, intercept=True)
    compiled = torch.compile(DecisionPath(ours), fullgraph=True, backend="aot_eager")
    for count, candidates in ((5, 7), (6, 4), (2, 9)):
        user, items = requests(count, candidates)
        bandit = {"bandit": user} if users else {}
        with torch.no_grad():
            got, want = compiled(user, items, **bandit)["probs"], ours(user, items, **bandit).probs
        torch.testing.assert_close(got, want, atol=1e-12, rtol=0)


def test_what_depends_on_open_decisions_is_not_exported():
    ours = head(narrow_pending=True)
    user, items = requests(5, 7)
    ours.serve(ours(user, items))
    with pytest.raises(Exception, match="narrow_pending depends on what is open and cannot be exported"):
        torch.export.export(DecisionPath(ours), (user, items))


def test_inference_mode_leaves_the_head_as_it_was():
    ours = SoftUCBHead(nn.Identity(), SoftUCBPolicy(3, dtype=D), normalise=True)
    features = torch.randn(4, 5, 3, dtype=D)
    with torch.inference_mode():
        ours.calibrate([(features,)])
        served = ours.serve(ours(features))
        ours.feedback(served.id[:2], torch.ones(2, dtype=D))
        ours.reseed(1)
    ours.feedback(served.id[2:], torch.ones(2, dtype=D))
    ours.serve(ours(features))
    ours.load_state_dict(ours.state_dict())
    assert ours.policy.state.num_observations == 4


def test_ids_are_never_given_twice():
    ours = SoftUCBHead(nn.Identity(), SoftUCBPolicy(3))
    features = torch.randn(3, 5, 3)
    first = ours.serve(ours(features))
    ours.feedback(first.id, torch.ones(3))
    ours.reseed(5, replica=0)
    second = ours.serve(ours(features))
    ours.reseed(5, replica=8)
    third = ours.serve(ours(features))
    assert len({*first.id.tolist(), *second.id.tolist(), *third.id.tolist()}) == 9
    assert ours.feedback(torch.cat((first.id, second.id, third.id)), torch.ones(9), on_repeat="ignore") == 6
    twin = SoftUCBHead(nn.Identity(), SoftUCBPolicy(3))
    twin.load_state_dict(ours.state_dict())
    assert twin.feedback(first.id, torch.ones(3), on_repeat="ignore") == 0
    for replica in (-1, 1 << 28):
        with pytest.raises(ValueError, match="replica must be"):
            ours.reseed(replica=replica)


def test_every_buffer_that_differs_between_ranks_is_left_out_of_ddp():
    state = set(head().state_dict())
    named = set(SoftUCBHead._ddp_params_and_buffers_to_ignore)
    assert named <= state
    assert {name for name in state if "pending" in name or "stream" in name or "statistics" in name} <= named


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


def test_numbers_that_overflow_are_refused():
    policy = SoftUCBPolicy(2, dtype=D)
    for x, y in ((torch.full((2,), 1e3, dtype=D), 1e307), (torch.full((3, 2), 1e200, dtype=D), torch.ones(3, dtype=D))):
        with pytest.raises(NumericalError, match=r"overflow|not positive definite"):
            policy.update(x, torch.as_tensor(y, dtype=D))
    assert policy.state.num_observations == 0


def test_state_goes_through_a_new_process(tmp_path):
    ours = head(users=20, intercept=True)
    user, items = requests(6, 5)
    served = ours.serve(ours(user, items, bandit=user))
    ours.feedback(served.id[:3], torch.ones(3, dtype=D))
    torch.save(ours.state_dict(), tmp_path / "head.pt")
    script = (
        "import sys, torch; from tests.recommend.cases import head, requests\n"
        "ours = head(users=20, intercept=True); ours.load_state_dict(torch.load(sys.argv[1], weights_only=True))\n"
        "user, items = requests(6, 5); ours.feedback(torch.tensor([3, 4, 5]), torch.ones(3).double())\n"
        "served = ours.serve(ours(user, items, bandit=user)); torch.save([ours.state_dict(), served.arm], sys.argv[2])\n"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "head.pt", tmp_path / "out.pt"], check=True)
    state, arm = torch.load(tmp_path / "out.pt", weights_only=True)
    ours.feedback(served.id[3:], torch.ones(3, dtype=D))
    assert ours.serve(ours(user, items, bandit=user)).arm.equal(arm)
    assert _same(_state(ours), state)


def test_100_000_users_fit_into_500_mb():
    policy = SoftUCBPolicy(16)
    policy.reset(batch_shape=(100_000,))
    ours = SoftUCBHead(Towers(16, dtype=torch.float32), policy)
    total = sum(value.numel() * value.element_size() for value in ours.state_dict().values())
    print(f"{total / 1e6:.0f} MB")
    assert total < 500e6
