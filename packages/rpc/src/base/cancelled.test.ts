import { expect, it } from 'vitest';
import { cancelled, cancelledText } from './cancelled.ts';

it('says whether a time limit or somebody has ended it, and keeps the reason', () => {
  const late = new DOMException('The operation was aborted due to timeout', 'TimeoutError');
  const given = new Error('enough');
  expect(cancelledText('backward', late)).toBe(
    'backward was cancelled: the time of its signal, an AbortSignal.timeout(), was up',
  );
  for (const reason of [given, 'TimeoutError', undefined]) expect(cancelledText('it', reason)).toBe('it was cancelled');
  const error = cancelled('the call', given, { executed: 'maybe' });
  expect(error).toMatchObject({ code: 'cancelled', cause: given, executed: 'maybe', message: 'the call was cancelled [cancelled]' }); // prettier-ignore
});
