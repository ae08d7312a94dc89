"""R22: a head and its log, used by many threads at once."""

import tempfile
import threading
from collections import defaultdict

import torch
from torch import Tensor, nn

from experiments.trust.goal import Result, Size, goal
from torch_softucb import SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import DecisionLog, read_log

_DIM = 4


def _serve_in_threads(
    head: SoftUCBHead, log: DecisionLog, threads: int, requests: int, seed: int
) -> tuple[list[int], dict[int, float], list[str]]:
    """Serve from several threads: ids, rewards that the head has taken, and errors."""
    ids: list[list[int]] = [[] for _ in range(threads)]
    rewards: list[dict[int, float]] = [{} for _ in range(threads)]
    errors: list[str] = []
    start = threading.Barrier(threads)

    def work(number: int) -> None:
        generator = torch.Generator().manual_seed(1000 * seed + number)
        start.wait()
        for _ in range(requests):
            try:
                items = torch.randint(50, (1, 5), generator=generator)
                with torch.no_grad():
                    served = head.serve(head(items))
                log.decisions(served)
                ids[number] += served.id.tolist()
                reward = torch.randn(1, generator=generator, dtype=torch.double)
                if head.feedback(served.id, reward):
                    log.rewards(served.id, reward)
                    rewards[number][int(served.id)] = float(reward)
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [id for part in ids for id in part], {id: y for part in rewards for id, y in part.items()}, errors


@goal(
    "R22",
    claim="""8 threads x 5,000 requests on one head and one log: all ids distinct, every reward learned, the log opens,
    and the statistics equal a sequential replay of the log to 1e-9.""",
    method="""Each thread serves a request, logs it, gives the reward to the head and logs the reward. Afterwards the
    log is read and its rewards are added one by one to a fresh policy.""",
    minutes=10,
)
def threads(size: Size) -> Result:
    torch.set_num_threads(1)
    count = size.of(5_000, 300)
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(size.seed)
        head = SoftUCBHead(nn.Embedding(50, _DIM, dtype=torch.double), SoftUCBPolicy(_DIM, dtype=torch.double))
        with DecisionLog(folder) as log:
            ids, rewards, errors = _serve_in_threads(head, log, 8, count, size.seed)
        repeated = len(ids) - len(set(ids))
        learned = int(head.policy.state.num_observations)
        logged = read_log(folder)
    again = SoftUCBPolicy(_DIM, dtype=torch.double)
    wrong = _replay(again, logged.id, logged.x, logged.reward, rewards)
    ours, theirs = head.policy.state, again.state
    difference = max(
        float((one - other).abs().max())
        for one, other in ((ours.V, theirs.V), (ours.b, theirs.b), (_inverse(ours.root), _inverse(theirs.root)))
    )
    met = not errors and repeated == wrong == 0 and len(ids) == len(logged.id) == learned == 8 * count and difference <= 1e-9
    text = f"{8 * count:,} requests: {repeated} ids repeated, {learned:,} learned, {len(logged.id):,} decisions logged, "
    text += f"{wrong} rewards wrong in the log, difference from the replay {difference:.0e}, {len(errors)} errors"
    return Result(met, text + (f" ({errors[0]})" if errors else ""))


def _inverse(root: Tensor) -> Tensor:  # (d, d) -> (d, d)
    """Return V^-1; its root depends on the order of the observations, by a rotation."""
    return root @ root.mT


def _replay(policy: SoftUCBPolicy, ids: Tensor, x: Tensor, reward: Tensor, given: dict[int, float]) -> int:
    """Update a policy with logged rewards one by one; returns how many differ from those that were given."""
    wrong = 0
    seen: dict[int, int] = defaultdict(int)
    for id, features, y in zip(ids.tolist(), x, reward, strict=True):
        seen[id] += 1
        wrong += seen[id] > 1 or given.get(id) != float(y)
        policy.update(features.to(policy.dtype), y.to(policy.dtype))
    return wrong
