#!/usr/bin/env bash
# Installs the page's packages into a build folder and bundles the page there.
#
#   build.sh FOLDER      (NODE, NPM: the programs)
#
# Where the packages cannot be had, it says so and leaves no page; the build goes on.
set -euo pipefail
web=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$1
mkdir -p "$folder"
cd "$folder"
rm -f page.html built
rm -rf web
mkdir web
cp -r "$web"/. web/

# The packages stay where they are as long as the lock file does.
if ! cmp -s web/package-lock.json installed-lock.json; then
  cp web/package.json web/package-lock.json .
  # No install scripts: esbuild's program comes in a package of its own.
  if ! "${NPM:-npm}" ci --ignore-scripts --no-audit --no-fund --prefer-offline --fetch-retries=1 \
    --loglevel=error; then
    echo "warning: npm could not install the packages of the report's page (is its registry" \
      "reachable?). Everything else is built; marrow report needs: cmake --build ... --target" \
      "marrow_report_page" >&2
    exit 0 # "built" is not there: the next build tries again
  fi
  cp package-lock.json installed-lock.json
fi
"${NODE:-node}" web/build.mjs web page.html
touch built
