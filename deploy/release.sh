#!/usr/bin/env bash
# What is handed out, into dist/: wheel, sdist, man pages, lists of what the images install, their digests. Everything is
# built twice and must be the same bytes, then tried where nothing else is installed. Nothing is signed or uploaded.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
version=$("$python" -c 'import kubeledger; print(kubeledger.__version__)')
commit=$(git rev-parse HEAD) # another may be made meanwhile
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "release: $*" >&2
    exit 1
}

[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed"
grep -q "^version = \"$version\"$" pyproject.toml || fail "pyproject.toml is not at $version, as --version is"
grep -qE "^## (\[?$version\]?|Unreleased)" CHANGELOG.md || fail "CHANGELOG.md has no section for $version"

# Two copies of the commit, in directories of different names.
for copy in first second; do
    mkdir -p "$scratch/$copy/source"
    git archive "$commit" | tar -x -C "$scratch/$copy/source"
    (cd "$scratch/$copy/source" && "$python" -m build -q --outdir "$scratch/$copy/dist" .)
    (cd "$scratch/$copy/source" && PYTHONPATH=. "$python" -m tests.release.man "$scratch/$copy/man")
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$scratch/$copy" -c man |
        gzip -n9 >"$scratch/$copy/dist/kubeledger-$version-man.tar.gz"
    for image in recorder fleet; do
        (cd "$scratch/$copy/source" && "${python%python}cyclonedx-py" requirements --pyproject pyproject.toml \
            --output-reproducible -o "$scratch/$copy/dist/$image.cdx.json" "deploy/locks/$image.txt")
    done
done
diff -r "$scratch/first/dist" "$scratch/second/dist" || fail "two builds of one commit differ"

rm -rf dist && mkdir dist && cp "$scratch"/first/dist/* dist/
(cd dist && sha256sum -- * >SHA256SUMS)
"$python" -m venv "$scratch/clean"
"$python" -m tests.release.check "$scratch/clean" dist

builder=$(command -v podman || command -v buildah || true)
if [ -n "$builder" ]; then
    for image in recorder fleet; do
        file=deploy/$image/Containerfile
        [ -f "$file" ] || file=deploy/Containerfile
        "$builder" build --timestamp "$SOURCE_DATE_EPOCH" -f "$file" -t "kubeledger-$image:$version" .
    done
else
    echo "release: neither podman nor buildah is here: no images were built; all else is done" >&2
fi
cat dist/SHA256SUMS
