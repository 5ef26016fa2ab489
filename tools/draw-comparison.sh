#!/usr/bin/env bash
# Draws what `marrow run --protocol A --protocol B … --csv FILE` wrote: time by message size, one line a
# protocol, both axes logarithmic.
#
#   tools/draw-comparison.sh FILE.csv >picture.svg
#
# docs/submission-modes.svg is drawn from traces/workloads/submission-modes.yaml as
# docs/host-initiated.md says.
set -euo pipefail
[ $# -eq 1 ] && [ -r "$1" ] || {
  echo "usage: tools/draw-comparison.sh FILE.csv >picture.svg" >&2
  exit 2
}
LC_ALL=C awk -F, '
  function log10(v) { return log(v) / log(10) }
  function x_of(bytes) { return left + (log(bytes) / log(2) - x_from) / (x_to - x_from) * width }
  function y_of(us) { return top + height - (log10(us) - y_from) / (y_to - y_from) * height }
  function size(bytes) {
    return bytes >= 1048576 ? bytes / 1048576 " MiB" : bytes >= 1024 ? bytes / 1024 " KiB" : bytes " B"
  }
  function text(x, y, anchor, what, colour) {
    gsub(/&/, "\\&amp;", what)
    gsub(/</, "\\&lt;", what)
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%s</text>\n", x, y, anchor, colour, what
  }
  NR == 1 {
    for (i = 1; i <= NF; ++i) column[$i] = i
    if (!("bytes" in column && "protocol" in column && "median_ns" in column)) {
      print "draw-comparison: " FILENAME " is no comparison: write one with --csv" > "/dev/stderr"
      failed = 1
      exit 2
    }
    next
  }
  {
    name = $column["protocol"]; bytes = $column["bytes"]; us = $column["median_ns"] / 1000
    if (bytes <= 0) next
    if (!(name in points)) { order[++lines] = name; points[name] = 0 }
    n = ++points[name]; xs[name, n] = bytes; ys[name, n] = us
    if (!(bytes in seen)) { seen[bytes] = 1; sizes[++ticks] = bytes }
    if (least == 0 || us < least) least = us
    if (us > most) most = us
    if (smallest == 0 || bytes < smallest) smallest = bytes
    if (bytes > largest) largest = bytes
  }
  END {
    if (failed || lines == 0) exit 2
    colour_count = split("#1f6feb #d1540a #2a8a3e #8b3fc4 #b3261e #5a6572", colours, " ")
    left = 60; top = 20; width = 520; height = 300
    # The names may need more room than the picture; lines beyond the colours are dashed.
    all = 370; if (top + 20 * lines + 10 > all) all = top + 20 * lines + 10
    x_from = log(smallest) / log(2); x_to = log(largest) / log(2)
    y_from = int(log10(least)); if (10 ^ y_from > least) --y_from
    y_to = int(log10(most)); if (10 ^ y_to < most) ++y_to
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 " all "\" font-family=\"sans-serif\" font-size=\"12\">"
    print "<rect width=\"760\" height=\"" all "\" fill=\"white\"/>"
    for (e = y_from; e <= y_to; ++e)
      for (m = 1; m < 10 && (m == 1 || e < y_to); ++m) {
        y = y_of(m * 10 ^ e)
        printf "<path d=\"M%d %.1fh%d\" stroke=\"%s\"/>\n", left, y, width, m == 1 ? "#bbb" : "#eee"
        if (m == 1 || m == 2 || m == 5) text(left - 6, y + 4, "end", m * 10 ^ e, "#444")
      }
    for (i = 1; i <= ticks; ++i) {
      printf "<path d=\"M%.1f %dv%d\" stroke=\"#eee\"/>\n", x_of(sizes[i]), top, height
      text(x_of(sizes[i]), top + height + 18, "middle", size(sizes[i]), "#444")
    }
    printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n", left, top, width, height
    text(left + width / 2, top + height + 40, "middle", "message size", "#222")
    printf "<text transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"middle\" fill=\"#222\">one message, us (median)</text>\n", top + height / 2
    for (l = 1; l <= lines; ++l) {
      name = order[l]; colour = colours[(l - 1) % colour_count + 1]; path = ""
      round = int((l - 1) / colour_count)
      dash = round == 0 ? "" : sprintf(" stroke-dasharray=\"%d 4\"", round == 1 ? 8 : 2)
      for (i = 1; i <= points[name]; ++i)
        path = path (i == 1 ? "M" : "L") sprintf("%.1f %.1f", x_of(xs[name, i]), y_of(ys[name, i]))
      printf "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", path, colour, dash
      for (i = 1; i <= points[name]; ++i)
        printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x_of(xs[name, i]), y_of(ys[name, i]), colour
      y = top + 14 + 20 * (l - 1)
      printf "<path d=\"M%d %dh22\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", left + width + 14, y, colour, dash
      text(left + width + 42, y + 4, "start", name, "#222")
    }
    print "</svg>"
  }' "$1"
