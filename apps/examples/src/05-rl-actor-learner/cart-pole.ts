/** @file The cart-pole task: balance a pole on a cart by pushing it left or right (Barto, Sutton and Anderson, 1983). */

export const STATE_SIZE = 4;
export const ACTIONS = 2;
/** An episode that lasts this long is a success, and over. */
export const MAX_STEPS = 200;

const GRAVITY = 9.8;
const CART_MASS = 1;
const POLE_MASS = 0.1;
const TOTAL_MASS = CART_MASS + POLE_MASS;
/** Half the pole, in metres. */
const LENGTH = 0.5;
const FORCE = 10;
/** Seconds a step stands for. */
const TAU = 0.02;
const MAX_ANGLE = (12 * Math.PI) / 180;
const MAX_POSITION = 2.4;

/** Position, speed, angle, angular speed. */
export type State = [number, number, number, number];

/** One cart. Every step in which the pole stands is worth a reward of 1. */
export class CartPole {
  private state: State = [0, 0, 0, 0];
  private readonly random: () => number;

  constructor(random: () => number) {
    this.random = random;
  }

  /** Starts over, nearly upright. */
  reset(): State {
    this.state = [this.draw(), this.draw(), this.draw(), this.draw()];
    return this.state;
  }

  /** Pushes left (0) or right (1) and says where that leads, and whether the pole has fallen or the cart left its track. */
  step(action: number): { state: State; over: boolean } {
    const [x, speed, angle, turn] = this.state;
    const cos = Math.cos(angle);
    const sin = Math.sin(angle);
    const push = ((action === 1 ? FORCE : -FORCE) + POLE_MASS * LENGTH * turn * turn * sin) / TOTAL_MASS;
    const turnChange = (GRAVITY * sin - cos * push) / (LENGTH * (4 / 3 - (POLE_MASS * cos * cos) / TOTAL_MASS));
    const speedChange = push - (POLE_MASS * LENGTH * turnChange * cos) / TOTAL_MASS;
    this.state = [x + TAU * speed, speed + TAU * speedChange, angle + TAU * turn, turn + TAU * turnChange];
    const over = Math.abs(this.state[0]) > MAX_POSITION || Math.abs(this.state[2]) > MAX_ANGLE;
    return { state: this.state, over };
  }

  private draw(): number {
    return (this.random() - 0.5) * 0.1;
  }
}
