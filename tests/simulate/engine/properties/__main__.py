"""Check random scenarios by number: ``python -m tests.simulate.engine.properties SEED [TO]``.

With ``--yaml`` the scenario itself, for ``kubeledger simulate``.
"""

import sys
import traceback

import yaml

from tests.random_scenarios import random_scenario
from tests.simulate.engine.properties.check import reproduction, violations


def main(arguments: list[str]) -> int:
    """Print what does not hold; 1 if anything does not."""
    numbers = [int(each) for each in arguments if each != "--yaml"]
    if not 1 <= len(numbers) <= 2:
        print(__doc__)
        return 2
    if "--yaml" in arguments:
        print(yaml.safe_dump(random_scenario(numbers[0]), sort_keys=False), end="")
        return 0
    failed = 0
    for seed in range(numbers[0], numbers[-1] + 1):
        try:
            found = violations(seed)
        except Exception:  # a crash is a finding like others, and the next seed goes on
            found = traceback.format_exc().splitlines()
        if found:
            failed += 1
            print(reproduction(seed), *found, sep="\n  ", flush=True)
    print(f"{numbers[-1] - numbers[0] + 1} scenarios, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
