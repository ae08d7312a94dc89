"""The native kernel under address and undefined-behaviour sanitizers: a test of the suite that builds it with them."""

from experiments.trust.suite import ROOT, run_tests

_TESTS = "tests/simulation/backends/test_kernel.py"


def sanitizer_reports() -> list[str] | None:
    """Return failures of the sanitized build, or None if there is no such test or it cannot run on this machine."""
    if "sanitizers" not in (ROOT / _TESTS).read_text():
        return None
    passed, failed, first = run_tests(_TESTS, "-k", "sanitizers", "-m", "long or not long")
    return [first] * failed if passed or failed else None
