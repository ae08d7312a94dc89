"""The report: what it claims, warnings, the figure."""

import re

import pytest
import torch

from tests.from_logs.cases import make_log, random_log
from torch_softucb import LinUCB
from torch_softucb.from_logs.pipeline import GREEDY, LEARNED, TUNED, learn_from_log
from torch_softucb.from_logs.report import log_report, recommendation, recommended, regret_by_beta

TINY = {"horizon": 20, "steps": 3, "trajectories": 8, "problems": 16, "compile": False}


def test_several_users(seeded):
    log, _ = random_log(900, 5, 3, seeded, bandits=4)
    result = learn_from_log(log, **TINY)
    report = log_report(result, source="a test")
    assert "900 decisions, 4 bandits, 3 features" in report
    assert "up to 5 at a time" in report
    assert f"LinUCB, same beta | {result.regret['LinUCB, same beta'].mean():.4g}" in report
    assert f"judged by the {len(log.arm) // 2} later ones" in report


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.1, 0.3, "more"), (-0.3, -0.1, "less"), (-0.1, 0.3, "not significantly more or less")],
)
def test_the_verdict_follows_the_interval_of_the_gain(low, high, verdict, seeded):
    log, _ = random_log(300, 5, 3, seeded)
    result = learn_from_log(log, **TINY)
    gain = result.value.gain._replace(low=torch.tensor(low), high=torch.tensor(high))
    report = log_report(result._replace(value=result.value._replace(gain=gain)), source="a test")
    assert f"SoftUCB earns {verdict} than what was logged" in report


def test_the_policy_earns_more_than_chance(seeded):
    log, _ = random_log(4000, 5, 3, seeded)
    result = learn_from_log(log, **TINY)
    assert "SoftUCB earns more than what was logged" in log_report(result, source="a test")


def test_candidates_that_were_never_shown_are_counted(seeded):
    """Item 4 is a candidate of all 200 decisions and never shown."""
    items = torch.randn(5, 3, dtype=torch.double, generator=seeded(0))
    arm = torch.randint(4, (200,), generator=seeded(1))
    reward = items[arm].sum(-1) + torch.randn(200, dtype=torch.double, generator=seeded(2))
    log = make_log(items[arm], arm, reward, candidates=torch.arange(5).expand(200, -1))
    assert "200 times a candidate was offered that was never shown" in log_report(learn_from_log(log, **TINY), source="x")


def test_nothing_to_gain_is_reported_too(seeded):
    """One arm: no regret at all, which has no place on a logarithmic axis."""
    log, _ = random_log(200, 1, 3, seeded)
    figure = regret_by_beta(learn_from_log(log, **TINY))
    assert len(figure.axes) == 1


def test_the_figure_shows_both_policies_the_learned_beta_and_eq_5(seeded):
    log, _ = random_log(300, 5, 3, seeded)
    result = learn_from_log(log, **TINY)
    (axes,) = regret_by_beta(result).axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[:2] == ["SoftUCB", "LinUCB"]
    assert labels[2].startswith(f"learned beta {result.betas[-1]:.3g}: ")
    assert labels[3] == f"Eq. 5: {result.radius:.3g}"
    assert list(axes.lines[0].get_xdata()) == [*result.curve]


@pytest.mark.parametrize(
    ("learned", "greedy", "tuned", "sentence"),
    [
        (1.0, 2.0, 1.0, "Deploy the learned SoftUCB: exploration is worth a reward of 1 (1 to 1) over 20 rounds more"),
        (2.0, 2.0, 1.0, "Deploy LinUCB with beta .*: exploration is worth a reward of 1"),
        (2.0, 2.0, 2.0, "Deploy the greedy policy: exploration adds nothing significant, 0"),
        (1.0, 0.5, 1.0, "Deploy the greedy policy: exploration costs more than it earns, -0.5"),
    ],
)
def test_the_recommendation_follows_the_regrets(learned, greedy, tuned, sentence, seeded):
    log, _ = random_log(300, 5, 3, seeded)
    result = learn_from_log(log, **TINY)
    levels = {LEARNED: learned, GREEDY: greedy, TUNED: tuned}
    result = result._replace(regret={name: torch.full((16,), level).double() for name, level in levels.items()})
    assert re.match(sentence.replace("(", r"\(").replace(")", r"\)"), recommendation(result))
    for low, high, proof in ((0.1, 0.2, "beats"), (-0.1, 0.1, "is not shown to beat")):
        gain = result.value.model_gain._replace(low=torch.tensor(low), high=torch.tensor(high))
        changed = result._replace(value=result.value._replace(model_gain=gain))
        assert f"with the learned model {proof} what was logged" in recommendation(changed)
    gain = result.value.model_gain._replace(low=torch.tensor(-0.2), high=torch.tensor(-0.1))
    worse = result._replace(value=result.value._replace(model_gain=gain))
    assert recommendation(worse).startswith("Keep the logging policy: the greedy policy with the learned model does worse")
    assert recommended(worse) is None
    assert recommendation(result._replace(value=None)).endswith("is not known without off-policy evaluation.")
    policy = recommended(result)
    if "SoftUCB" in sentence:
        assert policy is result.policy
    else:
        assert type(policy) is LinUCB
        assert policy.fixed_beta == (result.tuned_beta if "LinUCB" in sentence else 0.0)
    assert policy.state.num_observations == result.policy.state.num_observations > 0


def test_greedy_has_its_rows(seeded):
    log, _ = random_log(300, 5, 3, seeded)
    report = log_report(learn_from_log(log, **TINY), source="a test")
    for row in ("| greedy |", "| LinUCB, best fixed beta |", "| greedy, with the learned model |", "| what the model adds"):
        assert row in report
    assert "**Deploy " in report
