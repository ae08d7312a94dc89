"""Code blocks of the documentation run as printed, and its links lead to files."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if "SOFTUCB_DATA" in page.read_text() and not os.environ.get("SOFTUCB_DATA"):
        pytest.skip("set SOFTUCB_DATA to the folder of the data sets")
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(block, names)
    capsys.readouterr()


@pytest.mark.skipif(not os.environ.get("SOFTUCB_DATA"), reason="set SOFTUCB_DATA to the folder of the data sets")
def test_the_open_bandit_page_shows_the_numbers_that_its_code_prints(capsys):
    page = (ROOT / "docs" / "open_bandit.md").read_text()
    block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    assert len(block.splitlines()) <= 20
    exec(block, {})
    for line in capsys.readouterr().out.splitlines():
        interval, count = re.fullmatch(r"[-a-z]+: (.*), (\d+) decisions", line).groups()
        assert re.search(rf"\| {re.escape(interval)} \| {int(count):,} \|", page), line


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("heading", ["## Use", "### Rewards in any unit"])
def test_the_readmes_first_examples_run(heading):
    block = (ROOT / "README.md").read_text().split(heading)[1].split("```python\n")[1].split("```")[0]
    names: dict = {}
    exec(block, names)
    assert type(names["policy"]).__name__ in {"SoftUCBPolicy", "AutoSoftUCB"}


def test_the_readmes_own_data_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    section = (ROOT / "README.md").read_text().split("### Train on your own data")[1]
    names: dict = {}
    exec(section.split("```python\n")[1].split("```")[0], names)
    assert 0 < names["model"].mean_beta != 1.0
    assert names["model"].axis_value == 20 * 256 + 5 * 100
