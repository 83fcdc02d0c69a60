"""Threads that call whoever is in the group, and note each call: to whom, from when to when, and how it ended. Runs inside of a worker of the
acceptance tests."""


class Callers:
    def __init__(self, count, limit):
        self.limit, self.stopped = limit, threading.Event()
        # [callee, start, end, what failed], times in milliseconds since the epoch.
        self.calls = []
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self):
        import random

        agent = rpc.api._get_current_rpc_agent()
        value = torch.ones(4)
        while not self.stopped.wait(0.005):
            # Before the look at who is there: nobody is found who was gone by then.
            start = time.time() * 1000
            others = [info.name for info in agent.get_worker_infos() if not info.name.startswith("py")]
            if not others:
                continue
            name = random.choice(others)
            try:
                answer = rpc.rpc_sync(name, churn.same, (value,), timeout=self.limit)
                failure = None if torch.equal(answer, value) else "a wrong answer"
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"[:200]
            self.calls.append([name, start, time.time() * 1000, failure])

    def stop(self):
        """Whether every call has ended."""
        self.stopped.set()
        for thread in self.threads:
            thread.join(2 * self.limit)
        return not any(thread.is_alive() for thread in self.threads)
