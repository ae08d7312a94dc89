import importlib.util
import shutil
from pathlib import Path

import pytest

from torch_softucb.training import Dashboard, SoftUCBOffline

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
