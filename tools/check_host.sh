#!/bin/sh
# Checks for what a build needs and cannot install by itself; says in one line what is missing.
# usage: check_host.sh [python] ; exit status 1 where something is missing
python=${1:-python3}
missing=0

lacks() {
  echo "torch_fl: $1" >&2
  missing=1
}

case "$(uname -s)" in
  Linux) ;;
  *) lacks "runs on Linux (and WSL2) only, this is $(uname -s)" ;;
esac

if ! command -v "$python" >/dev/null 2>&1; then
  lacks "needs Python 3.11 or newer, '$python' is not there (Debian, Ubuntu: apt install python3 python3-venv python3-dev)"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  lacks "needs Python 3.11 or newer, '$python' is $("$python" -V 2>&1); name another by 'make PYTHON=python3.12 ...'"
else
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    lacks "needs Python's venv and ensurepip modules (Debian, Ubuntu: apt install python3-venv)"
  "$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
    lacks "needs Python.h of '$python' (Debian, Ubuntu: apt install python3-dev)"
fi

compiler=${CXX:-g++}
if ! command -v "${compiler%% *}" >/dev/null 2>&1; then
  lacks "needs a C++ compiler, g++ 12 or newer; '$compiler' is not there (Debian, Ubuntu: apt install g++)"
elif [ -z "${CXX:-}" ] && [ "$(g++ -dumpversion | cut -d. -f1)" -lt 12 ]; then
  lacks "needs g++ 12 or newer, found $(g++ -dumpversion)"
fi

if ! command -v node >/dev/null 2>&1; then
  lacks "needs Node.js 20 or newer, 'node' is not there (Debian, Ubuntu: apt install nodejs)"
elif [ "$(node --version | sed 's/^v\([0-9]*\).*/\1/')" -lt 20 ]; then
  lacks "needs Node.js 20 or newer, found $(node --version)"
fi

exit $missing
