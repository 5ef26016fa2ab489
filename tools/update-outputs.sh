#!/usr/bin/env bash
# Renews the outputs shown in README.md and docs/: where a line says
#
#   <!-- output of: COMMAND -->
#
# the fenced block that follows is replaced by what COMMAND prints in the repository's root, with
# the program's folder first on the PATH.
#
#   tools/update-outputs.sh [--check] [FOLDER]
#
# FOLDER: where marrow was built (default build). --check: write nothing, fail if a page is stale.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check=
if [ "${1:-}" = --check ]; then
  check=yes
  shift
fi
folder=$(cd "${1:-build}" && pwd)
[ -x "$folder/marrow" ] || {
  echo "update-outputs: no program $folder/marrow; build first (tools/start.sh)" >&2
  exit 2
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
for page in README.md docs/*.md; do
  state=text
  while IFS= read -r line; do
    case "$state" in
      text)
        printf '%s\n' "$line"
        if [[ $line =~ ^'<!-- output of: '(.*)' -->'$ ]]; then
          command=${BASH_REMATCH[1]}
          state=wanted
        fi
        ;;
      wanted) # the opening fence
        printf '%s\n' "$line"
        if [[ $line == '```'* ]]; then
          if ! PATH=$folder:$PATH bash -c "$command" >"$scratch/out" 2>&1 </dev/null; then
            echo "update-outputs: $page: fails: $command" >&2
            status=1
          fi
          sed 's/[[:space:]]*$//' "$scratch/out"
          state=old
        fi
        ;;
      old) # until the closing fence
        if [[ $line == '```' ]]; then
          printf '%s\n' "$line"
          state=text
        fi
        ;;
    esac
  done <"$page" >"$scratch/page"
  cmp -s "$page" "$scratch/page" && continue
  if [ -n "$check" ]; then
    diff -u "$page" "$scratch/page" || status=1
  else
    cat "$scratch/page" >"$page"
    echo "wrote $page"
  fi
done
exit "$status"
