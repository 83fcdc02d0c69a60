/** Position, speed, angle and angular speed of a pole on a cart (Barto, Sutton and Anderson, 1983). */
export type State = [number, number, number, number];

/** One cart. Every step in which the pole stands is worth a reward of 1. */
export class CartPole {
  #state: State = [0, 0, 0, 0];

  /** Starts over, nearly upright. */
  reset(): State {
    return (this.#state = this.#state.map(() => (Math.random() - 0.5) * 0.1) as State);
  }

  /** Pushes left (0) or right (1). */
  step(action: number): { state: State; over: boolean } {
    const [x, speed, angle, turn] = this.#state;
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    const push = ((action === 1 ? 10 : -10) + 0.05 * turn * turn * sin) / 1.1;
    const turning = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - (0.1 * cos * cos) / 1.1));
    const pushing = push - (0.05 * turning * cos) / 1.1;
    this.#state = [x + 0.02 * speed, speed + 0.02 * pushing, angle + 0.02 * turn, turn + 0.02 * turning];
    return { state: this.#state, over: Math.abs(this.#state[0]) > 2.4 || Math.abs(this.#state[2]) > Math.PI / 15 };
  }
}
