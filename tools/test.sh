#!/usr/bin/env bash
# Installs what is needed, builds with warnings as errors into build-ci/, and runs all tests. The
# last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/install-deps.sh
cmake --preset ci -B build-ci
cmake --build build-ci

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
ctest --test-dir build-ci --output-on-failure --no-tests=error --timeout 600 -j "$(nproc)" |
  tee "$log" || status=$?

# "97% tests passed, 3 tests failed out of 120"
summary=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests? failed out of [0-9]+' "$log" || true)
if [ -z "$summary" ]; then
  echo "test: no test was run" >&2
  echo "0 passed, 0 failed"
  exit 1
fi
failed=$(sed -E 's/^.*passed, ([0-9]+) tests? failed.*$/\1/' <<<"$summary")
total=$(sed -E 's/^.*out of ([0-9]+).*$/\1/' <<<"$summary")
echo "$((total - failed)) passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$status" -eq 0 ]
