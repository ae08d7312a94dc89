import importlib.util
import shutil
from pathlib import Path

import pytest

from torch_softucb.training import Dashboard, SoftUCBOffline
from torch_softucb.training.figures import regret_figure

ROOT = Path(__file__).parents[2]


def _screenshot_script():
    spec = importlib.util.spec_from_file_location("screenshot", ROOT / "scripts" / "screenshot.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.browser
def test_tensorboard_shows_the_custom_charts(fit, tiny, tmp_path):
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    trainer = fit(SoftUCBOffline(dim=3, horizon=16), tiny(), callbacks=[Dashboard()])
    script = _screenshot_script()
    text = script.shot(Path(trainer.logger.log_dir), tmp_path / "shot.png")
    assert [part for part in [*script.CHARTS, script.MATCHES] if part not in text] == []
    assert (tmp_path / "shot.png").stat().st_size > 20_000


def test_figure_names_every_curve_once(fit, tiny):
    model = SoftUCBOffline(dim=3, horizon=16)
    fit(model, tiny(), logger=False)
    assert set(model.curves) == {"soft_ucb", "lin_ucb_bound", "lin_ucb_same_beta", "lin_ts", "epsilon_greedy"}
    assert all(curve.shape == (16, 8) for curve in model.curves.values())
    (axes,) = regret_figure(model.curves).axes
    assert len(axes.texts) == len(axes.lines) == 5


def test_rivals_meet_the_same_noise_and_are_played_once(fit, tiny):
    model = SoftUCBOffline(dim=3, horizon=16)
    data = tiny()
    fit(model, data, logger=False)
    first = model.curves["lin_ucb_bound"]
    again = model.evaluate(data.episode("validate", 0, 8))
    assert again["lin_ucb_bound"] is first
    fresh = SoftUCBOffline(dim=3, horizon=16).evaluate(data.episode("validate", 0, 8))
    assert fresh["lin_ucb_bound"].equal(first)
    other = data.episode("test", 0, 8)
    assert not model.evaluate(other)["lin_ucb_bound"].equal(first)


def test_the_last_validation_is_about_the_last_beta(fit, tiny):
    model = SoftUCBOffline(dim=3, horizon=16)
    fit(model, tiny(num_steps=5), logger=False, val_check_interval=2)
    assert model._validated == 5
    want = SoftUCBOffline(dim=3, horizon=16, beta_init=model.mean_beta).evaluate(tiny().episode("validate", 0, 8))
    assert model.curves["soft_ucb"].equal(want["soft_ucb"])
