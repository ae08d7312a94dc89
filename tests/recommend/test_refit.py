"""Statistics rebuilt from past requests."""

import pytest
import torch

from tests.recommend.cases import head, requests, same_state, state_of
from torch_softucb.recommend import Replay

D = torch.double


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
    kept = state_of(ours)
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
    assert same_state(kept, state_of(ours))
