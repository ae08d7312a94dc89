"""Code blocks of the documentation run as printed, and its links lead to files."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(block, names)
    capsys.readouterr()


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
