from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from torch_softucb.training import Dashboard, SoftUCBOffline, SoftUCBOnline
from torch_softucb.training.tags import AUTO_TAGS, LAYOUT, ONLINE_TAGS, SCALE_TAGS, TAGS

NOT_TAGS = {
    "epoch",
    "custom_scalars__config__",
    "_hparams_/experiment",
    "_hparams_/session_start_info",
    "_hparams_/session_end_info",
}


def _events(trainer):
    events = EventAccumulator(trainer.logger.log_dir)
    events.Reload()
    return events


def _tags(events):
    found = events.Tags()
    return {tag for kind in ("scalars", "histograms", "images", "tensors") for tag in found[kind]} - NOT_TAGS


def test_offline_run_writes_the_documented_tags(fit, tiny):
    trainer = fit(SoftUCBOffline(dim=3, horizon=16), tiny(), callbacks=[Dashboard(histogram_every=2)])
    events = _events(trainer)
    assert _tags(events) == set(TAGS)
    assert [e.step for e in events.Scalars("policy/beta")] == [8, 16, 24, 32, 40, 48]  # trajectories
    assert events.Scalars("validation/soft_ucb")[-1].step == 48
    assert events.Scalars("policy/beta")[0].value == 1.0
    assert events.Tags()["tensors"]  # the custom-scalars layout


def test_a_run_that_estimates_its_scales_shows_them(fit, tiny):
    model = SoftUCBOffline(dim=3, horizon=64, estimate_scales=True, estimator="trajectory", beta_init=2.0)
    trainer = fit(model, tiny(), callbacks=[Dashboard(histogram_every=2)])
    events = _events(trainer)
    assert _tags(events) == set(TAGS) | set(SCALE_TAGS)
    assert 0.3 < events.Scalars("scales/noise_std")[-1].value < 0.7  # 0.5 is true
    assert model.policy.beta != 2.0


@pytest.mark.parametrize("eta", [1.0, "auto"])
def test_online_run_writes_the_documented_tags(eta, fit, tiny):
    model = SoftUCBOnline(num_trajectories=8, dim=3, horizon=24, rounds_per_step=4, eta=eta)
    trainer = fit(model, tiny(fresh_problems=True, one_episode=True), callbacks=[Dashboard(histogram_every=2)])
    events = _events(trainer)
    assert _tags(events) == set(TAGS) | set(ONLINE_TAGS) | (set(AUTO_TAGS) if eta == "auto" else set())
    assert [e.step for e in events.Scalars("policy/beta")] == [4, 8, 12, 16, 20, 24]  # rounds
    assert events.Scalars("regret/cumulative")[-1].value == pytest.approx(model.final_regret, rel=1e-5)


def test_the_readme_quotes_the_list():
    text = (Path(__file__).parents[2] / "README.md").read_text()
    for tag, meaning in (TAGS | ONLINE_TAGS | AUTO_TAGS | SCALE_TAGS).items():
        assert f"| `{tag}` | {meaning} |" in text


def test_the_layout_names_real_tags():
    for charts in LAYOUT.values():
        for _, tags in charts.values():
            assert {tag.rstrip("$") for tag in tags} <= set(TAGS)
