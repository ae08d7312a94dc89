"""Open decisions: their rows, and how they narrow the width."""

import torch

from tests.recommend.cases import head, requests
from torch_softucb.recommend.pending import Pending, pending_gram

D = torch.double


def _add(pending, *decisions):
    pending.opening(*decisions)[0]()


def test_rows_of_closed_decisions_are_used_again():
    pending = Pending(2, dtype=D, device=torch.device("cpu"))
    for start in range(0, 10_000, 100):
        ids = torch.arange(start, start + 100)
        _add(pending, ids, ids.double().unsqueeze(-1).expand(-1, 2), None)
        x, bandit = pending.find([start + 42])
        assert x.tolist() == [[start + 42.0] * 2]
        assert bandit.tolist() == [-1]
        pending.closing(ids.tolist())[0]()
    assert len(pending.x) <= 200


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


def test_state_holds_the_open_decisions_only():
    pending, other = (Pending(2, dtype=D, device=torch.device("cpu")) for _ in range(2))
    _add(pending, torch.tensor([5, 3, 8]), torch.arange(6, dtype=D).view(3, 2), torch.tensor([1, 0, 1]))
    pending.closing([3])[0]()
    state = pending.state_dict()
    assert {name: value.tolist() for name, value in state.items()} == {
        "id": [5, 8],
        "x": [[0.0, 1.0], [4.0, 5.0]],
        "bandit": [1, 1],
    }
    _add(other, torch.tensor([70]), torch.ones(1, 2, dtype=D), None)
    other.load_state_dict(state)
    assert other.ids().tolist() == [5, 8]
    assert 70 not in other
    _add(other, torch.tensor([9]), torch.full((1, 2), 7.0, dtype=D), None)
    assert other.find([9, 8])[0].tolist() == [[7.0, 7.0], [4.0, 5.0]]


def test_gram_by_loops():
    pending = Pending(2, dtype=torch.float32, device=torch.device("cpu"))
    x, owner = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), torch.tensor([4, 2, 4])
    _add(pending, torch.tensor([1, 2, 3]), x, owner)
    outer = [torch.outer(row, row).double() for row in x]
    assert pending_gram(*pending.all(), None).equal(outer[0] + outer[1] + outer[2])
    got = pending_gram(*pending.all(), torch.tensor([2, 9, 4, 4]))
    assert got.equal(torch.stack((outer[1], torch.zeros(2, 2, dtype=D), outer[0] + outer[2], outer[0] + outer[2])))
