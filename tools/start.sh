#!/usr/bin/env bash
# Installs what is needed, builds marrow, and replays a bundled H200 capture: first where the time
# of one put goes, then every predicted stage against what was measured.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

quietly() { # shows a step's output only if it fails
  local log
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "start: failed: $*" >&2
    exit 1
  fi
  rm -f "$log"
}

tools/install-deps.sh
echo "start: building into build/ (some minutes the first time)"
quietly cmake --preset release
if [ -t 1 ]; then cmake --build --preset release; else quietly cmake --build --preset release; fi

system=configs/systems/h200-c.yaml
capture=traces/h200-c-device-consumer.trace
show() {
  printf '\n$'
  printf ' %q' "$@"
  printf '\n'
  "$@"
}
show build/marrow run --system "$system" --trace "$capture" --only 'cfg 0'
show build/marrow validate --system "$system" --capture "$capture"
