"""Threads that call whoever is in the group, and note how each call ended. Runs inside of a worker of the acceptance tests."""


class Callers:
    def __init__(self, count, limit):
        self.limit, self.lock, self.stopped = limit, threading.Lock(), threading.Event()
        self.good, self.longest, self.failed = 0, 0.0, {}
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self):
        import random

        agent = rpc.api._get_current_rpc_agent()
        value = torch.ones(4)
        while not self.stopped.wait(0.005):
            others = [info.name for info in agent.get_worker_infos() if not info.name.startswith("py")]
            if not others:
                continue
            name, start = random.choice(others), time.monotonic()
            try:
                failure = None if torch.equal(rpc.rpc_sync(name, churn.same, (value,), timeout=self.limit), value) else "WrongAnswer"
            except Exception as error:
                failure = type(error).__name__
            took = time.monotonic() - start
            with self.lock:
                self.longest = max(self.longest, took)
                if failure is None:
                    self.good += 1
                else:
                    self.failed[failure] = self.failed.get(failure, 0) + 1

    def stop(self):
        """Whether every call has ended."""
        self.stopped.set()
        for thread in self.threads:
            thread.join(2 * self.limit)
        return not any(thread.is_alive() for thread in self.threads)
