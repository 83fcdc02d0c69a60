#!/bin/sh
# Runs this package's tests on native TensorFlow: builds the addon of @tensorflow/tfjs-node against the TensorFlow library of a Python
# wheel, in a directory of its own, and leaves the checkout as it was. Needs npm, pip, unzip and a C++ compiler.
# usage: tools/test-tensorflow.sh [directory]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
root=$(cd "$here/../.." && pwd)
work=${1:-$(mktemp -d)}
wheel=tensorflow_cpu==2.21.0
tfjs=4.22.0

mkdir -p "$work"
cd "$work"
if [ ! -e node_modules/@tensorflow/tfjs-node/lib/napi-v8/tfjs_binding.node ]; then
  echo '{"private":true,"type":"module"}' >package.json
  npm install --no-audit --no-fund --ignore-scripts "@tensorflow/tfjs-node@$tfjs" "@tensorflow/tfjs-core@$tfjs" \
    "@tensorflow/tfjs-backend-cpu@$tfjs" "@tensorflow/tfjs-backend-wasm@$tfjs"
  pip download --quiet --no-deps --dest wheel "$wheel"
  unzip -qo wheel/*.whl 'tensorflow/libtensorflow_cc.so.2' 'tensorflow/libtensorflow_framework.so.2' \
    'tensorflow/include/tensorflow/c/*' 'tensorflow/include/tensorflow/core/platform/ctstring*' \
    'tensorflow/include/xla/tsl/c/*' 'tensorflow/include/tsl/platform/ctstring*' -d tf
  addon=node_modules/@tensorflow/tfjs-node
  mkdir -p "$addon/deps/lib"
  ln -sfn "$work/tf/tensorflow/include" "$addon/deps/include"
  cd "$addon/deps/lib"
  ln -sf "$work/tf/tensorflow/libtensorflow_cc.so.2" "$work/tf/tensorflow/libtensorflow_framework.so.2" .
  ln -sf libtensorflow_cc.so.2 libtensorflow.so
  # The name under which the addon's build script looks for the library it was written for.
  ln -sf libtensorflow_cc.so.2 libtensorflow.so.2.9.1
  ln -sf libtensorflow_framework.so.2 libtensorflow_framework.so
  cd ../..
  npx node-pre-gyp install --build-from-source
  cd "$work"
fi

rm -rf package
mkdir package
cp -r "$here/src" "$here/golden" package/
for tool in vitest fast-check; do ln -sfn "$root/node_modules/$tool" "node_modules/$tool"; done
cat >package/vitest.config.mjs <<'CONFIG'
export default {
  root: import.meta.dirname,
  oxc: { target: 'es2022' },
  test: { include: ['src/**/*.test.ts'], pool: 'forks', testTimeout: 60_000, env: { BACKWIRE_BACKEND: 'tensorflow' } },
};
CONFIG
cd package
exec "$root/node_modules/.bin/vitest" run --config vitest.config.mjs
