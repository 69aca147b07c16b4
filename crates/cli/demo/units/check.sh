#!/bin/sh
# Runs every test there is.
set -e
cd "$(dirname "$0")"
python3 -B -m unittest discover -s tests -t .
