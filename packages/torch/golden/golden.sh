#!/bin/sh
# Reads captures with torch, and what this package writes, and fails where torch sees something else than what is kept; --write keeps it.
# The Python is $BACKWIRE_TORCH_PYTHON, else python3. Without torch there is nothing to compare: it says so and succeeds.
set -eu
cd "$(dirname "$0")"
python=${BACKWIRE_TORCH_PYTHON:-python3}
if ! "$python" -c 'import torch, numpy' 2>/dev/null; then
  echo "golden: $python has no torch with numpy (BACKWIRE_TORCH_PYTHON names another); the kept values stay as they are"
  exit 0
fi
export PYTHONDONTWRITEBYTECODE=1
run() {
  node --import tsx --conditions=@backwire/source "$1"
}
"$python" -W ignore values.py "$@"
"$python" -W ignore modules.py "$@"
written=$(run written.ts)
printf '%s' "$written" | "$python" -W ignore written.py "$@"
files=$(run files.ts)
printf '%s' "$files" | "$python" -W ignore files.py "$@"
case " $* " in *' --write '*) npx prettier --write . --log-level warn ;; esac
