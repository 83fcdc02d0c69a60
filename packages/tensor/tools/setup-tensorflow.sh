#!/bin/sh
# Installs native TensorFlow for the `tensorflow` backend of this checkout, where npm's own installer cannot download its library: builds
# the addon of @tensorflow/tfjs-node against the TensorFlow library of a Python wheel, inside packages/tensor/node_modules/.tensorflow.
# Nothing tracked by git changes; removing that directory undoes it. Needs npm, pip, unzip, a C++ compiler; about 900 MB of disk.
# With --gpu it is @tensorflow/tfjs-node-gpu, over the wheel built for CUDA and the libraries of NVIDIA that it names (about 6 GB of disk);
# the driver has to be there.
# usage: tools/setup-tensorflow.sh [--gpu] [directory]
set -eu
package=tfjs-node
if [ "${1:-}" = --gpu ]; then
  package=tfjs-node-gpu
  shift
fi
case ${1:-} in
-*)
  echo "setup:tensorflow: unknown flag $1; usage: setup:tensorflow [--gpu] [directory]" >&2
  exit 2
  ;;
esac
here=$(cd "$(dirname "$0")/.." && pwd)
work=${1:-$here/node_modules/.tensorflow}
tensorflow=2.21.0
tfjs=4.22.0

fail() {
  echo "setup:tensorflow: $*" >&2
  exit 1
}
for tool in npm node unzip c++ make; do command -v $tool >/dev/null || fail "$tool is not installed"; done
pip=
for candidate in pip3 pip; do
  if command -v $candidate >/dev/null; then pip=$candidate; fi
done
[ -n "$pip" ] || fail 'pip is not installed'

mkdir -p "$work"
cd "$work"
work=$(pwd)
addon=$work/node_modules/@tensorflow/$package
if [ ! -e "$addon/lib/napi-v8/tfjs_binding.node" ]; then
  echo "1/3 @tensorflow/$package $tfjs from npm, without its installer"
  echo '{"private":true}' >package.json
  npm install --no-audit --no-fund --ignore-scripts --loglevel=error --workspaces=false "@tensorflow/$package@$tfjs"
  # The checkout's own copies serve: one engine, one table of kernels.
  rm -rf node_modules/@tensorflow/tfjs-core node_modules/@tensorflow/tfjs-backend-cpu

  echo "2/3 the TensorFlow $tensorflow library from its Python wheel"
  rm -rf wheel tf
  if [ $package = tfjs-node-gpu ]; then
    # The wheel for CUDA, and beside it the libraries that it opens by name.
    $pip download --quiet --no-deps --dest wheel "tensorflow==$tensorflow"
    $pip install --quiet --target cuda "tensorflow[and-cuda]==$tensorflow"
    mkdir -p cuda/lib
    find "$work/cuda/nvidia" -name 'lib*.so*' -exec ln -sf {} "$work/cuda/lib/" \;
  else
    $pip download --quiet --no-deps --dest wheel "tensorflow_cpu==$tensorflow" ||
      $pip download --quiet --no-deps --dest wheel "tensorflow==$tensorflow"
  fi
  unzip -qo wheel/*.whl 'tensorflow/libtensorflow_cc.so.2' 'tensorflow/libtensorflow_framework.so.2' \
    'tensorflow/include/tensorflow/c/*' 'tensorflow/include/tensorflow/core/platform/ctstring*' \
    'tensorflow/include/xla/tsl/c/*' 'tensorflow/include/tsl/platform/ctstring*' -d tf
  rm -rf wheel

  echo '3/3 the addon'
  mkdir -p "$addon/deps/lib"
  ln -sfn "$work/tf/tensorflow/include" "$addon/deps/include"
  cd "$addon/deps/lib"
  ln -sf "$work/tf/tensorflow/libtensorflow_cc.so.2" "$work/tf/tensorflow/libtensorflow_framework.so.2" .
  ln -sf libtensorflow_cc.so.2 libtensorflow.so
  # The name under which the addon's build script looks for the library it was written for.
  ln -sf libtensorflow_cc.so.2 libtensorflow.so.2.9.1
  ln -sf libtensorflow_framework.so.2 libtensorflow_framework.so
  cd ../..
  npx node-pre-gyp install --build-from-source >"$work/build.log" 2>&1 || {
    tail -40 "$work/build.log" >&2
    fail "the addon did not build; all of its output: $work/build.log"
  }
fi

cd "$here"
if [ $package = tfjs-node-gpu ]; then
  export LD_LIBRARY_PATH="$work/cuda/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export BACKWIRE_EXPECT_DEVICE=gpu:0
fi
node --import tsx --conditions=@backwire/source -e "
  import('./src/index.ts').then(async (bw) => {
    await bw.setBackend('tensorflow');
    const a = bw.rand([200, 200]);
    const exact = a.to('float64').matmul(a.to('float64'));
    if (!a.matmul(a).to('float64').allClose(exact, { rtol: 1e-5 })) throw new Error('a product came out wrong');
    const { device } = a.matmul(a);
    const expected = process.env.BACKWIRE_EXPECT_DEVICE ?? 'cpu';
    if (device !== expected) throw new Error(\`it computes on \${device} instead of \${expected}: is the driver there?\`);
    console.log(\`the tensorflow backend works, on \${device}: BACKWIRE_BACKEND=tensorflow, or setBackend('tensorflow')\`);
  });"
[ $package = tfjs-node ] || echo "programs need LD_LIBRARY_PATH=$work/cuda/lib"
