#!/bin/sh
# Computes the values in golden/ anew with PyTorch and fails where they differ from those kept; with --write it keeps the new ones.
# The Python is $BACKWIRE_TORCH_PYTHON, else python3. Without torch there is nothing to compare: it says so and succeeds.
set -eu
cd "$(dirname "$0")/../golden"
python=${BACKWIRE_TORCH_PYTHON:-python3}
if ! "$python" -c 'import torch, numpy, safetensors' 2>/dev/null; then
  echo "golden: $python has no torch with numpy and safetensors (BACKWIRE_TORCH_PYTHON names another); the kept values stay as they are"
  exit 0
fi
export PYTHONDONTWRITEBYTECODE=1
"$python" make.py "$@"
"$python" curves.py "$@"
"$python" models.py "$@"
"$python" dtypes.py "$@"
"$python" complex.py "$@"
case " $* " in *' --write '*) cd ../../.. && npx prettier --write packages/tensor/golden --log-level warn ;; esac
