/** @file The game of the reinforcement learning example, as reinforcement.py has it: a pole on a cart (Barto, Sutton and Anderson, 1983). */

export type State = [x: number, speed: number, angle: number, turn: number];

/** One cart. The same seed draws the same beginnings as there. */
export class CartPole {
  private drawn: number;
  private state: State = [0, 0, 0, 0];

  constructor(seed: number) {
    this.drawn = seed;
  }

  reset(): State {
    this.state = [this.draw(), this.draw(), this.draw(), this.draw()];
    return this.state;
  }

  /** Pushes left (0) or right (1). */
  step(action: number): { readonly state: State; readonly fell: boolean } {
    const [x, speed, angle, turn] = this.state;
    const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
    const push = ((action === 1 ? 10 : -10) + 0.05 * turn * turn * sin) / 1.1;
    const turnChange = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - (0.1 * cos * cos) / 1.1));
    const speedChange = push - (0.05 * turnChange * cos) / 1.1;
    this.state = [x + 0.02 * speed, speed + 0.02 * speedChange, angle + 0.02 * turn, turn + 0.02 * turnChange];
    return { state: this.state, fell: Math.abs(this.state[0]) > 2.4 || Math.abs(this.state[2]) > (12 * Math.PI) / 180 };
  }

  private draw(): number {
    this.drawn = (Math.imul(this.drawn, 1_664_525) + 1_013_904_223) >>> 0;
    return ((this.drawn >>> 8) / 16_777_216 - 0.5) * 0.1;
  }
}
