"""An agent and its observers, as in torch's example of batched reinforcement learning. Runs inside of workers of the acceptance tests."""
import math
import threading
import time

import torch
from torch import nn, optim
from torch.distributed import rpc
from torch.distributions import Categorical

GAMMA = 0.99
LEARNING_RATE = 0.01
HIDDEN = 32


class CartPole:
    """Barto, Sutton and Anderson, 1983."""

    def __init__(self, seed):
        self.drawn, self.state = seed, []

    def draw(self):
        self.drawn = (self.drawn * 1664525 + 1013904223) & 0xFFFFFFFF
        return ((self.drawn >> 8) / 16777216 - 0.5) * 0.1

    def reset(self):
        self.state = [self.draw() for _ in range(4)]
        return self.state

    def step(self, action):
        x, speed, angle, turn = self.state
        sin, cos = math.sin(angle), math.cos(angle)
        push = ((10 if action == 1 else -10) + 0.05 * turn * turn * sin) / 1.1
        turn_change = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
        speed_change = push - 0.05 * turn_change * cos / 1.1
        self.state = [x + 0.02 * speed, speed + 0.02 * speed_change, angle + 0.02 * turn, turn + 0.02 * turn_change]
        return self.state, abs(self.state[0]) > 2.4 or abs(self.state[2]) > 12 * math.pi / 180


class Observer:
    def __init__(self, number, seed):
        self.number, self.env = number, CartPole(seed)

    def run_episode(self, to, steps):
        """Plays for so many steps, and begins again whenever the pole has fallen; where it fell."""
        state, falls = self.env.reset(), []
        for step in range(steps):
            action = rpc.rpc_sync(to, select_action, (self.number, torch.tensor(state)))
            state, fell = self.env.step(action)
            if fell:
                falls.append(step)
                state = self.env.reset()
        return falls


class Agent:
    def __init__(self, observers, seed):
        torch.manual_seed(seed)
        self.policy = nn.Sequential(nn.Linear(4, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
        self.optimizer = optim.Adam(self.policy.parameters(), lr=LEARNING_RATE)
        self.observers = [rpc.remote(name, Observer, (i, seed + i)) for i, name in enumerate(observers)]
        self.states = torch.zeros(len(observers), 4)
        self.waiting, self.chosen = 0, torch.futures.Future()
        self.lock, self.log_probs = threading.Lock(), []

    def select_action(self, number, state):
        with self.lock:
            self.states[number].copy_(state)
            action = self.chosen.then(lambda chosen: chosen.value()[number])
            self.waiting += 1
            if self.waiting == len(self.observers):
                self.waiting, chosen = 0, self.chosen
                self.chosen = torch.futures.Future()
                chosen.set_result(self.choose())
        return action

    def choose(self):
        """One forward pass for all observers."""
        distribution = Categorical(logits=self.policy(self.states.clone()), validate_args=False)
        actions = distribution.sample()
        self.log_probs.append(distribution.log_prob(actions))
        return actions.tolist()

    def run_episode(self, steps):
        """All observers play, then the policy learns; how long poles stood, on average."""
        self.log_probs = []
        name = rpc.get_worker_info().name
        played = [observer.rpc_async(timeout=0).run_episode(name, steps) for observer in self.observers]
        falls = [future.wait() for future in played]
        returns = torch.stack([returns_of(each, steps) for each in falls], dim=1)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        loss = -(torch.stack(self.log_probs) * returns).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return steps * len(falls) / (len(falls) + sum(len(each) for each in falls))


def returns_of(falls, steps):
    """What a reward of 1 for each step that the pole stands comes to from each step on."""
    values, value, fell = [], 0.0, set(falls)
    for step in reversed(range(steps)):
        value = 1 + GAMMA * (0.0 if step in fell else value)
        values.append(value)
    return torch.tensor(values[::-1])


agent = None


@rpc.functions.async_execution
def select_action(number, state):
    """The next action of an observer, of the agent of this process: answered when all observers have asked."""
    return agent.select_action(number, state)


def play(observers, episodes, steps, seed=0):
    """How long poles stood in each episode, steps in a second of all of it, and microseconds of this process's processor time a step."""
    global agent
    agent = Agent(observers, seed)
    began, used = time.perf_counter(), time.process_time()
    stood = [agent.run_episode(steps) for _ in range(episodes)]
    total = episodes * steps * len(observers)
    return stood, total / (time.perf_counter() - began), (time.process_time() - used) / total * 1e6


def nothing(number, state):
    """What a step asks of the agent, without a policy and without the others."""
    return number


def call_time(to, calls):
    """Microseconds that a call takes which does nothing, the median."""
    state, spent = torch.zeros(4), []
    for _ in range(calls):
        began = time.perf_counter()
        rpc.rpc_sync(to, nothing, (0, state))
        spent.append(time.perf_counter() - began)
    return sorted(spent)[calls // 2] * 1e6
