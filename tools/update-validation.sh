#!/usr/bin/env bash
# Writes today's numbers into docs/validation.md, between its two markers: for each bundled capture
# the summary of `marrow validate`, and every stable predicted row that misses by more than 15 %
# with its explanation from docs/validation-misses.txt; then every published measurement.
#
#   tools/update-validation.sh [--check] [MARROW]
#
# MARROW: the program (default build/marrow). --check: write nothing; fail if the page is stale or a
# miss has no explanation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check=
if [ "${1:-}" = --check ]; then
  check=yes
  shift
fi
program=${1:-build/marrow}
page=docs/validation.md
notes=docs/validation-misses.txt
[ -x "$program" ] || {
  echo "update-validation: no program $program; build first (tools/start.sh)" >&2
  exit 2
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Table of the misses of one capture, from validate's JSON (one key a line) and the notes
# (capture | case | stage | text; an empty stage stands for every stage of the case).
misses() { # capture json
  awk -v capture="$1" '
    function text(line) { sub(/^[^:]*: */, "", line); sub(/,$/, "", line); gsub(/"/, "", line); return line }
    function trim(s) { gsub(/^ +| +$/, "", s); return s }
    FNR == NR {
      if ($0 !~ /^#/ && split($0, part, "|") >= 4 && trim(part[1]) == capture)
        note[trim(part[2]) "|" trim(part[3])] = trim(part[4])
      next
    }
    /"rows": \[/ { rows = 1 }
    /"summary":/ { rows = 0 }
    !rows { next }
    /"case":/ { case_ = text($0) }
    /"stage":/ { stage = text($0) }
    /"role":/ { role = text($0) }
    /"measured":/ { side = "m" }
    /"predicted":/ { side = "p" }
    /"median":/ { median[side] = text($0) }
    /"error":/ { error = text($0) + 0 }
    /"baseline_error":/ { baseline = text($0) }
    /"stable":/ { stable = text($0) }
    /"hard":/ {
      if (stable == "true" && role != "fit" && (error > 0.15 || error < -0.15)) {
        why = note[case_ "|" stage]
        if (why == "") why = note[case_ "|"]
        if (why == "") why = note["*|" stage]
        if (why == "") why = "not explained yet"
        if (!any++) print "\n| run | stage | measured | predicted | error | baseline | why |\n|---|---|---:|---:|---:|---:|---|"
        printf "| %s | `%s` | %.0f | %.0f | %+.0f %% | %s | %s |\n", case_, stage, median["m"], median["p"], 100 * error, baseline == "null" ? "-" : sprintf("%+.0f %%", 100 * baseline), why
      }
    }
    END { if (!any) print "\nNo stable row misses by more than 15 %." }
  ' "$notes" "$2"
}

# Table of all published cells that are predicted, and what the others need. Notes as above, with
# "measurements" for the capture; here a miss without one is shown, not refused.
cells() { # json
  awk '
    function text(line) { sub(/^[^:]*: */, "", line); sub(/,$/, "", line); gsub(/"/, "", line); return line }
    function trim(s) { gsub(/^ +| +$/, "", s); return s }
    FNR == NR {
      if ($0 !~ /^#/ && split($0, part, "|") >= 4 && trim(part[1]) == "measurements")
        note[trim(part[2])] = trim(part[4])
      next
    }
    /"case":/ { case_ = text($0) }
    /"what":/ { what = text($0) }
    /"role":/ { role = text($0) }
    /"unit":/ { unit = text($0) }
    /"measured":/ { side = "m" }
    /"predicted":/ { side = "p" }
    /"median":/ { median[side] = text($0) }
    /"error":/ { error = text($0) + 0 }
    /"stable":/ {
      if (!any++) print "\n| id | what | unit | measured | predicted | error | role | why |\n|---|---|---|---:|---:|---:|---|---|"
      miss = error > 0.15 || error < -0.15
      printf "| %s | %s | %s | %.4g | %.4g | %+.1f %% | %s | %s |\n", case_, what, unit, median["m"], median["p"], 100 * error, role, miss ? note[case_] : ""
    }
    /"reason":/ {
      reason = text($0)
      if (!count[reason]++) order[++reasons] = reason
    }
    END {
      if (reasons) print "\n| not covered: needs | cells |\n|---|---:|"
      for (i = 1; i <= reasons; ++i) {
        reason = order[i]
        sub(/^needs /, "", reason)
        printf "| %s | %d |\n", reason, count[order[i]]
      }
    }
  ' "$notes" "$1"
}

{
  for trace in traces/*.trace; do
    capture=$(basename "$trace" .trace)
    machine=$("$program" trace info "$trace" | awk '$1 == "machine" { print $2 }')
    system=configs/systems/$machine.yaml
    printf '\n### %s\n\n' "$capture"
    if [ ! -f "$system" ]; then
      echo "Not replayed yet: there is no \`$system\`."
      continue
    fi
    if ! "$program" validate --system "$system" --capture "$trace" --json "$scratch/v.json" \
      >"$scratch/table" 2>"$scratch/error"; then
      printf 'Not replayed yet: %s\n' "$(sed 's/^marrow: //' "$scratch/error")"
      continue
    fi
    # shellcheck disable=SC2016
    printf '`marrow validate --system %s --capture %s`\n\n```\n' "$system" "$trace"
    awk '/median \|error\|/ { on = 1 } on' "$scratch/table" | sed 's/[[:space:]]*$//'
    printf '```\n'
    misses "$capture" "$scratch/v.json"
  done
  echo
} >"$scratch/section"
{
  if "$program" validate --measurements validate/measurements/dissecting --json "$scratch/m.json" \
    >"$scratch/table" 2>"$scratch/error"; then
    # shellcheck disable=SC2016
    printf '\n```\n'
    awk '/^all tables/ { on = 1 } /^Times are/ { exit } on' "$scratch/table" | sed 's/[[:space:]]*$//'
    printf '```\n'
    cells "$scratch/m.json"
  else
    cat "$scratch/error" "$scratch/table" >&2
    exit 2
  fi
  echo
} >"$scratch/measurements"

awk -v validation="$scratch/section" -v measurements="$scratch/measurements" '
  /<!-- (validation|measurements): begin/ {
    section = /validation:/ ? validation : measurements
    print
    while ((getline line < section) > 0) print line
    skip = 1
    next
  }
  /<!-- (validation|measurements): end/ { skip = 0 }
  !skip
' "$page" >"$scratch/page"
unexplained=$(grep -c 'not explained yet' "$scratch/section" || true)
if [ "$unexplained" -gt 0 ]; then
  echo "update-validation: $unexplained misses have no line in $notes" >&2
fi
if [ -n "$check" ]; then
  if ! diff -u "$page" "$scratch/page"; then
    echo "update-validation: $page is stale; run tools/update-validation.sh" >&2
    exit 1
  fi
  [ "$unexplained" -eq 0 ] || exit 1
  echo "$page is up to date"
else
  cat "$scratch/page" >"$page"
  echo "wrote $page"
fi
