#!/usr/bin/env bash
# Runs every bundled study and puts their results on one page, docs/studies.html.
#
#   tools/update-studies.sh [MARROW]
#
# MARROW: the program (default build/marrow).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=$(realpath "${1:-build/marrow}")
[ -x "$program" ] || {
  echo "update-studies: no program $program; build first (tools/start.sh)" >&2
  exit 2
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
folders=()
for study in configs/studies/*.yaml; do
  name=$(basename "$study" .yaml)
  "$program" sweep "$study" --out "$scratch/$name" >/dev/null
  folders+=("$name")
done
page=$PWD/docs/studies.html
(cd "$scratch" && "$program" report "${folders[@]}" --out "$page")
