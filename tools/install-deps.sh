#!/usr/bin/env bash
# Installs what marrow needs on Debian 12. Does nothing where everything is there already.
#
#   tools/install-deps.sh [--replace-boost]
#
# --replace-boost: let apt remove another version's Boost headers (Debian allows one at a time).
set -euo pipefail

packages=(
  g++ cmake ninja-build
  libsystemc-dev libboost1.81-dev libboost-iostreams1.81-dev zlib1g-dev
  libyaml-cpp-dev libprotobuf-dev protobuf-compiler nlohmann-json3-dev libfmt-dev libcli11-dev
  libceres-dev # least squares of `marrow calibrate`
  libsqlite3-dev # the importer of Nsight Systems exports
  libgtest-dev libbenchmark-dev
  libboost-mpi1.81-dev libopenmpi-dev openmpi-bin # studies over several machines
  libibverbs-dev # mlx5dv.h: the tests compare its layouts with ours; marrow-capture drives a NIC
)
# The page of `marrow report` is bundled with Node and tested in Chromium; of any source.
command -v node >/dev/null && command -v npm >/dev/null || packages+=(nodejs npm)
command -v chromium >/dev/null || packages+=(chromium)

say() { echo "install-deps: $*"; }
fail() {
  echo "install-deps: $*" >&2
  exit 1
}

replace_boost=${CI:+yes} # a build machine has nobody to ask
case "${1:-}" in
  "") ;;
  --replace-boost) replace_boost=yes ;;
  -h | --help)
    sed -n '2,6s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  *) fail "unknown option '$1'; the only one is --replace-boost" ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  fail "this is not Debian (no apt-get). Install the equivalents of: ${packages[*]}"
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  say "everything is installed"
  exit 0
fi

# shellcheck disable=SC1091
. /etc/os-release
if [ "${ID:-}" != debian ] || [ "${VERSION_ID:-0}" -lt 12 ]; then
  say "tried on Debian 12 only; this is ${PRETTY_NAME:-unknown}"
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "not root and no sudo; as root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" \
    </dev/null
}
run() { # quiet while all goes well
  local log
  log=$(mktemp)
  if ! apt "$@" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

say "installing ${missing[*]}"
if ! run update; then
  say "apt-get update failed; going on with the package lists there are"
fi
for package in "${missing[@]}"; do
  apt-cache show "$package" >/dev/null 2>&1 ||
    fail "no package '$package' in this system's package lists (Debian 12 has it)"
done

# Debian's Boost headers of two versions exclude each other, and marrow needs 1.81.
others=()
while read -r package status; do
  case "$package" in
    libboost*1.81*) ;;
    libboost*-dev | libboost*-tools) [ "$status" = installed ] && others+=("$package") ;;
  esac
done < <(dpkg-query -W -f='${Package} ${db:Status-Status}\n' 'libboost*' 2>/dev/null || true)
remove=()
if [ ${#others[@]} -gt 0 ]; then
  if [ "$replace_boost" != yes ]; then
    fail "Boost headers of another version are installed, and Debian allows one at a time:
  ${others[*]}
marrow needs 1.81. To let apt remove them: tools/install-deps.sh --replace-boost"
  fi
  say "replacing ${others[*]}"
  remove=("${others[@]/%/-}")
fi

run install -y --no-install-recommends "${missing[@]}" "${remove[@]}" ||
  fail "apt-get install failed (see above)"
say "done"
