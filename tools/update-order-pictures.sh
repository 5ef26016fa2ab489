#!/usr/bin/env bash
# Draws the pictures of docs/ordering.md: for each `](order/NAME.svg)` in it, how the litmus program
# NAME comes to its outcome.
#
#   tools/update-order-pictures.sh [--check] [FOLDER]
#
# FOLDER: where marrow was built (default build). --check: write nothing, fail if a picture is stale.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
check=
if [ "${1:-}" = --check ]; then
  check=yes
  shift
fi
folder=$(cd "${1:-build}" && pwd)
[ -x "$folder/marrow" ] || {
  echo "update-order-pictures: no program $folder/marrow; build first (tools/start.sh)" >&2
  exit 2
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
options=()
while IFS= read -r name; do
  options+=(--witness "$name")
done < <(grep -o '](order/[a-z0-9-]*\.svg)' docs/ordering.md | sed 's|](order/||; s|\.svg)||' | sort -u)
"$folder/marrow" litmus --draw "$scratch" "${options[@]}" >"$scratch/witnesses.txt"
rm "$scratch/witnesses.txt"
if [ -n "$check" ]; then
  diff -r "$scratch" docs/order
else
  rm -rf docs/order
  mkdir docs/order
  cp "$scratch"/*.svg docs/order/
  echo "drew $(find docs/order -name '*.svg' | wc -l) pictures into docs/order"
fi
