"""Take a screenshot of a run's TensorBoard dashboard with headless Chromium.

    python scripts/screenshot.py --log-dir lightning_logs --out docs/dashboard.png

Needs chromium and chromium-driver (Debian's package names), and selenium.
"""

import argparse
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--window-size=1500,900", "--hide-scrollbars"]
CHARTS = ["beta against its bound", "regret with 95% band", "regret against baselines", "gradient parts", "coverage"]
MATCHES = "Matches (2)"  # TensorBoard's text under a chart of two tags once their data are loaded


@contextmanager
def tensorboard(log_dir: Path) -> Iterator[str]:
    """Run a TensorBoard server on a free local port; yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(log_dir),
        "--port",
        str(port),
        "--host",
        "127.0.0.1",
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}/"
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(address, timeout=2)
                break
            except OSError:
                time.sleep(0.2)
        else:
            raise TimeoutError(f"screenshot: TensorBoard did not answer at {address} within 40 seconds")
        yield address
    finally:
        server.terminate()
        server.wait()


def shot(log_dir: Path, out: Path, seconds: float = 180) -> str:
    """Open the custom-scalars tab, wait until all charts show data, save a screenshot; return the page's text.

    TensorBoard answers before it has read the event files, and the page does not reload by itself, so an incomplete page
    is reloaded every 20 seconds.
    """
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    with tempfile.TemporaryDirectory() as profile, tensorboard(log_dir) as address:
        for flag in [*FLAGS, f"--user-data-dir={profile}"]:
            options.add_argument(flag)
        service = webdriver.ChromeService(shutil.which("chromedriver") or "chromedriver")
        browser = webdriver.Chrome(options=options, service=service)
        try:
            browser.get(address + "#custom_scalars")
            start = time.monotonic()
            opened = start
            while time.monotonic() < start + seconds and not browser.execute_script(WHOLE, CHARTS, MATCHES):
                if time.monotonic() > opened + 20:
                    browser.refresh()
                    opened = time.monotonic()
                time.sleep(0.5)
            time.sleep(2)  # lines fade in
            out.parent.mkdir(parents=True, exist_ok=True)
            browser.save_screenshot(str(out))
            return str(browser.execute_script(TEXT))
        finally:
            browser.quit()


# TensorBoard's page consists of nested shadow roots; walk all of them
WALK = "function walk(n, f) { f(n); if (n.shadowRoot) walk(n.shadowRoot, f); for (const c of n.childNodes) walk(c, f); }"
TEXT = WALK + "let s = ''; walk(document.body, n => { if (n.nodeType == 3) s += n.textContent + ' '; }); return s;"
WHOLE = (
    WALK
    + "let s = '', k = 0; walk(document.body, n => { if (n.nodeType == 3) s += n.textContent + ' ';"
    + " if (n.tagName == 'VZ-LINE-CHART2') k += 1; });"
    + "return k >= arguments[0].length && arguments[0].every(c => s.includes(c)) && s.includes(arguments[1]);"
)


def main(argv: list[str] | None = None) -> None:
    """Take the screenshot and check that all charts are in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log-dir", type=Path, default=Path("lightning_logs"), help="folder with the runs")
    parser.add_argument("--out", type=Path, default=Path("docs/dashboard.png"), help="file to write")
    args = parser.parse_args(argv)
    text = shot(args.log_dir, args.out)
    missing = [part for part in [*CHARTS, MATCHES] if part not in text]
    if missing:
        raise SystemExit(f"screenshot: not found in the page: {', '.join(missing)}")
    print(f"Screenshot: {args.out}")


if __name__ == "__main__":
    main()
