#!/usr/bin/env bash
# Formats every C++ file in place; with --check it changes nothing and fails where it would.
# Versions of clang-format differ, so it is always 14 (Debian 12's).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

formatter=$(command -v clang-format-14 || true)
[ -n "$formatter" ] || {
  echo "format: needs clang-format-14 (apt-get install clang-format-14)" >&2
  exit 2
}
options=()
case "${1:-}" in
  "") options=(-i) ;;
  --check) options=(--dry-run --Werror) ;;
  *)
    echo "format: unknown option '$1'; the only one is --check" >&2
    exit 2
    ;;
esac
find . -path './build*' -prune -o -path ./.git -prune -o \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 "$formatter" "${options[@]}"
