"""All targets, by name."""

from tests.fuzz import importing, ledgers, queries, serving, texts
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (importing, ledgers, texts, queries, serving)
    for target in module.TARGETS
}
