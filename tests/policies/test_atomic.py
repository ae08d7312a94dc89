"""A failed update changes nothing: every torch operation inside it fails once, in turn."""

import pytest
import torch

from tests.interruptions import failing_operation
from tests.policies.cases import ALL, ONE_PER_CALL, build

ARM = torch.tensor([0, 1, 0])


UPDATES = {
    "one": ((3,), lambda p, d: p.update(torch.randn(3, 2), torch.randn(3), decision=d, arm=ARM), None),
    "refresh": ((3,), lambda p, d: p.update(torch.randn(3, 2), torch.randn(3), decision=d, arm=ARM), 1),
    "many": ((3,), lambda p, d: p.update(torch.randn(3, 5, 2), torch.randn(3, 5), decision=d), None),
    "rows": (
        (9,),
        lambda p, d: p.update(torch.randn(3, 2), torch.randn(3), bandit=torch.tensor([4, 0, 2]), decision=d, arm=ARM),
        None,
    ),
    "repeated rows": (
        (9,),
        lambda p, d: p.update(torch.randn(3, 2), torch.randn(3), bandit=torch.tensor([4, 0, 4])),
        None,
    ),
    "requests": ((), lambda p, d: p.update(torch.randn(3, 2), torch.randn(3), decision=d), None),
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("case", UPDATES)
def test_every_operation_fails_once(name, case):
    batch, update, refresh = UPDATES[case]
    if name in ONE_PER_CALL and (case == "repeated rows" or (case in ("many", "requests") and name != "soft_ucb_lagged")):
        pytest.skip(ONE_PER_CALL[name])
    policy = build(name, 2, batch=batch, num_arms=2)
    policy.refresh_every = refresh or 1024
    torch.manual_seed(0)
    policy.statistics.copy_(policy.statistics)
    arms = torch.eye(2)
    decision = policy(arms, bandit=torch.tensor([4, 0, 2]) if "rows" in case else None)
    before = {k: v.numpy().tobytes() for k, v in policy.state_dict().items()}
    position = 0
    while failing_operation(position, lambda: update(policy, decision)):
        assert {k: v.numpy().tobytes() for k, v in policy.state_dict().items()} == before
        position += 1
    assert position > 15
    assert policy.statistics.numpy().tobytes() != before["statistics"]
