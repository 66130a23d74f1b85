"""Bad arguments, parameters, files and tables, for every estimator, path and command."""

from collections import Counter

import pytest

from hostile.groups import quick_groups

GROUPS = dict(quick_groups())


@pytest.mark.parametrize("group", GROUPS)
def test_attacks(group, record_property):
    outcomes, faults = Counter(), []
    for attack in GROUPS[group]:
        try:
            outcomes[attack.run()] += 1
        except Exception as fault:
            faults.append(f"{attack.what}: {type(fault).__name__} {fault}"[:300])
    assert not faults, "\n".join(faults)
    record_property("hostile", dict(outcomes))
