import { rpcFunction, tensor } from 'backwire';
import { joinTorch } from '@backwire/torch';

const lengths = rpcFunction('words.lengths', (words: unknown) => {
  if (!Array.isArray(words)) throw new TypeError('lengths of a list of words');
  return tensor(words.map((word) => String(word).length));
});
// Before this worker joins, and nothing else: whoever is in the group may call it from the first moment.
await using agent = await joinTorch({ name: 'node', rank: 1, worldSize: 2, trustNetwork: true, serve: [lengths] });
await agent.shutdown(); // answers calls until all have come to their end
