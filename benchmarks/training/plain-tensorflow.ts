/** @file Loads native TensorFlow from where `npm run setup:tensorflow` installs it; it registers itself with TensorFlow.js. */
import { setBackend } from '@backwire/tensor';

await setBackend('tensorflow');
