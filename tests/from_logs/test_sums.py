"""Sums of each user's observations, against a loop."""

import torch

from torch_softucb.from_logs import sums as module
from torch_softucb.from_logs.sums import user_sums

D = torch.double


def test_sums_are_those_of_each_users_rows(seeded, monkeypatch):
    monkeypatch.setattr(module, "_ROWS", 7)
    x, reward = (torch.randn(shape, generator=seeded(0), dtype=D) for shape in ((30, 3), (30,)))
    owner = torch.randint(4, (30,), generator=seeded(1))
    found = user_sums(x, reward, owner, num_users=5)  # the last one has no rows
    for user in range(5):
        own, y = x[owner == user], reward[owner == user]
        want = (torch.tensor(float(len(y)), dtype=D), own.sum(0), y.sum(), own.T @ own, own.T @ y, y @ y)
        for got, expected in zip(found, want, strict=True):
            torch.testing.assert_close(got[user], expected, atol=1e-12, rtol=0)


def test_one_user_is_the_whole_table(seeded):
    x, reward = (torch.randn(shape, generator=seeded(0), dtype=D) for shape in ((30, 3), (30,)))
    found = user_sums(x, reward, torch.zeros(30, dtype=torch.int64), num_users=1)
    assert found.gram.equal((x.T @ x).unsqueeze(0))
