#!/bin/sh
# Writes the C++ API reference to FOLDER/api and prints doxygen's warnings. usage: api_reference.sh FOLDER [SETTING=VALUE ...]
set -e
cd "$(dirname "$0")/.."
if ! command -v doxygen >/dev/null 2>&1; then
  echo "the API reference needs doxygen, which is not installed: apt-get install doxygen" >&2
  exit 1
fi
folder=$1
shift
mkdir -p "$folder"
{
  cat docs/Doxyfile
  echo "OUTPUT_DIRECTORY = \"$folder\""
  for setting in "$@"; do echo "$setting"; done
} | doxygen -
