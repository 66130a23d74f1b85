"""What a run of the tests says at its end."""

from collections import Counter


def pytest_terminal_summary(terminalreporter):
    """Print how many hostile cases were tried, and what came of them."""
    total = Counter()
    for report in terminalreporter.getreports("passed"):
        total.update(dict(report.user_properties).get("hostile", {}))
    if total:
        outcomes = ", ".join(f"{n} {outcome}" for outcome, n in sorted(total.items()))
        terminalreporter.write_line(f"{total.total()} hostile cases: {outcomes}")
