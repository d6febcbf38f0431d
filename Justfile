# `just -l` is the manual. All recipes use the virtual environment in .venv.
set positional-arguments
python := ".venv/bin/python"

# everything a change must pass
default: check

# make the virtual environment with all that development needs
setup:
    python3 -m venv .venv
    .venv/bin/pip install -q -e '.[dev]'

# format the code
fmt:
    .venv/bin/ruff format .
    .venv/bin/ruff check --fix .

# lint and formatting, nothing changed
lint:
    .venv/bin/ruff check .
    .venv/bin/ruff format --check .

# strict types, package and tests
types:
    .venv/bin/mypy

# at each change, under a minute: tests of small histories in memory; arguments go to pytest
quick *args:
    {{python}} -m pytest -q -n 2 --quick "$@"

# the tests of the README; arguments go to pytest
test *args:
    {{python}} -m pytest -n 2 "$@"

# the tests marked slow, which that leaves out: whole histories, damage at every byte, Ray
slow *args:
    {{python}} -m pytest -n 2 -m "slow and not nightly" "$@"

# the long runs that both leave out, and all tests that draw their inputs, with new seeds
nightly:
    {{python}} -m pytest -n 2 -m "nightly or hypothesis" --hypothesis-profile nightly -o faulthandler_timeout=0
    nice -n 10 {{python}} -m tests.fuzz

# a million inputs to every reader of foreign bytes, on one core; arguments go to the fuzzer
fuzz *args:
    nice -n 10 {{python}} -m tests.fuzz "$@"

# mutation testing: `just mutants 'kubeledger.kubelet.prober.*'`; `.venv/bin/mutmut results` lists what no test notices
mutants *names:
    nice -n 10 .venv/bin/mutmut run --max-children 2 "$@"

# rewrite schemas/ from the record types and the scenario's models
schemas:
    {{python}} -m tests.generated.record_schemas schemas
    {{python}} -m tests.generated.scenario_schema schemas

# rewrite docs/sql.md from the views' column comments, docs/internals/parity.md from the version profile, docs/internals/messages.md from the message tables
docs:
    {{python}} -m tests.generated.parity > docs/internals/parity.md
    {{python}} -m tests.generated.sql_page > docs/sql.md
    {{python}} -m tests.generated.messages_page > docs/internals/messages.md

# run docs/analysis.ipynb and store what its cells give
notebook:
    {{python}} -m tests.notebook docs/analysis.ipynb

# rewrite what views and shipped queries give for the fixture ledger (tests/analyze/sql/expected), what verification
# says of the recordings (tests/verify/expected), and what is said of wrong scenarios
expected:
    {{python}} -m tests.analyze.sql.expected_rows
    {{python}} -m tests.verify.expected_findings
    {{python}} -m tests.simulate.scenario.test_load

# rewrite recordings/golden from tests/testing/goldens
golden:
    {{python}} -m tests.testing.goldens

# rewrite docs/images from the recording of node-a and from a made-up fleet, in a real Chromium
screenshots:
    {{python}} -m tests.timeline.screenshots docs/images
    {{python}} -m tests.fleet.screenshots docs/images

# rewrite deploy/locks: the newest versions that pyproject.toml allows, with their hashes; what the images install
lock:
    {{python}} -m pip install -q -e '.[release]'
    for image in "build.txt deploy/locks/build.in" "recorder.txt --extra record pyproject.toml" \
        "fleet.txt --extra fleet pyproject.toml deploy/locks/ray.in"; do \
        set -- $image; .venv/bin/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes \
            --no-header --no-annotate --no-emit-index-url -o "deploy/locks/$@" >/dev/null; done

# CycloneDX lists of what the images install beside Debian's packages, from deploy/locks: sbom/*.cdx.json
sbom:
    {{python}} -m pip install -q -e '.[release]'
    mkdir -p sbom
    for image in recorder fleet; do .venv/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
        -o sbom/$image.cdx.json deploy/locks/$image.txt; done

# build wheel, sdist, man pages and lists of packages twice, compare, and try them in a clean environment: dist/
release:
    {{python}} -m pip install -q -e '.[release]'
    deploy/release.sh

# the pages of docs/ as a site with search and the Python reference: site/
site:
    {{python}} -m mkdocs build -q -f deploy/site/mkdocs.yml

# benchmarks: print the ratios of docs/internals/performance.md
bench:
    {{python}} -m tests.benchmarks

# everything a change must pass, as .ci/run does
check: lint types test slow

# install without development packages and run the demo
smoke:
    rm -rf .smoke && python3 -m venv .smoke
    .smoke/bin/pip install -q .
    .smoke/bin/kubeledger demo
    rm -rf .smoke
