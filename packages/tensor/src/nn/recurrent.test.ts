/** @file LSTMs whose output is projected. The expected values are PyTorch 2.13's. */
import { describe, expect, it } from 'vitest';
import { linspace, nn, noGrad, type Tensor } from '../index.ts';

const rounded = (t: Tensor, digits = 5): number[] => {
  const factor = 10 ** digits;
  return (t.reshape([t.size]).toArray() as number[]).map((v) => Math.round(v * factor) / factor);
};
const input = (): Tensor => linspace(-1, 1, 12).reshape([3, 2, 2]);

function layers(options: nn.LSTMOptions = {}): nn.LSTM {
  const lstm = new nn.LSTM(2, 3, { numLayers: 2, bidirectional: true, projSize: 2, ...options });
  noGrad(() => {
    for (const p of lstm.parameters()) p.copy_(linspace(-0.5, 0.5, p.size).reshape(p.shape));
  });
  return lstm;
}

describe('nn.LSTM with projSize', () => {
  it('has the parameters of PyTorch, in its order', () => {
    const own = ['weight_ih', 'weight_hh', 'bias_ih', 'bias_hh', 'weight_hr'];
    const sides = ['_l0', '_l0_reverse', '_l1', '_l1_reverse'];
    const lstm = layers();
    expect(lstm.namedParameters().map(([name]) => name)).toEqual(
      sides.flatMap((side) => own.map((name) => `${name}${side}`)),
    );
    const shapes = Object.fromEntries(lstm.namedParameters().map(([name, { shape }]) => [name, shape]));
    expect(shapes).toMatchObject({
      weight_hh_l0: [12, 2],
      weight_hr_l0: [2, 3],
      weight_ih_l1_reverse: [12, 4],
      weight_hr_l1_reverse: [2, 3],
    });
    expect(String(lstm)).toContain('projSize: 2');
    expect(String(new nn.LSTM(2, 3))).not.toContain('projSize');
  });

  it('gives outputs and h of that size, and c of the hidden size, with their gradients', () => {
    const lstm = layers();
    const [out, [h, c]] = lstm.forward(input());
    expect([out.shape, h.shape, c.shape]).toEqual([[3, 2, 4], [4, 2, 2], [4, 2, 3]]); // prettier-ignore
    const expected = [
      [-0.0362, 0.07305, -0.06055, 0.12516, -0.03675, 0.07407, -0.06126, 0.12658],
      [-0.05357, 0.1096, -0.05392, 0.11031, -0.05417, 0.11079, -0.05437, 0.11124],
      [-0.06157, 0.12732, -0.03731, 0.07526, -0.06189, 0.12803, -0.03744, 0.07554],
    ];
    expect(rounded(out)).toEqual(expected.flat());
    expect(rounded(c.select(0, 3))).toEqual([0.0399, 0.13657, 0.25955, 0.0403, 0.13751, 0.26144]);
    out.sum().add(c.sum()).backward();
    const gradient = (name: string): Tensor => Object.fromEntries(lstm.namedParameters())[name]?.grad as Tensor;
    expect(rounded(gradient('weight_hr_l0'), 4)).toEqual([0.0018, 0.0065, 0.0128, 0.0062, 0.0219, 0.0427]);
    expect(rounded(gradient('weight_hh_l1_reverse'), 4).slice(0, 6)).toEqual([
      -0.0016, 0.0032, -0.0084, 0.0172, -0.0209, 0.0425,
    ]);
  });

  it('goes through packed sequences, and on from a state of its own', () => {
    const lstm = layers();
    const [out, [h]] = lstm.forward(nn.utils.rnn.packPaddedSequence(input(), [3, 1]));
    expect(rounded(out.data).slice(0, 8)).toEqual([
      -0.0362, 0.07305, -0.06055, 0.12516, -0.03623, 0.07315, -0.03623, 0.07315,
    ]);
    expect(rounded(h.select(0, 2))).toEqual([-0.06157, 0.12732, -0.03623, 0.07315]);
    const one = layers({ numLayers: 1, bidirectional: false });
    const steps = input();
    const [whole] = one.forward(steps);
    const [first, state] = one.forward(steps.narrow(0, 0, 1));
    const [rest] = one.forward(steps.narrow(0, 1, 2), state);
    expect(rounded(whole)).toEqual([...rounded(first), ...rounded(rest)]);
    expect(() => one.forward(steps, [state[1], state[1]])).toThrow('expected states of shape [1, 2, 2], got [1, 2, 3]');
  });

  it('refuses a size that is none', () => {
    for (const projSize of [3, -1, 1.5, NaN])
      expect(() => new nn.LSTM(2, 3, { projSize })).toThrow(
        `projSize has to be a whole number from 0 (no projection) to less than hiddenSize 3, but got ${projSize}`,
      );
    expect(() => new nn.GRU(2, 3, { projSize: 2 } as nn.RecurrentOptions)).toThrow("unknown option 'projSize'");
  });
});
