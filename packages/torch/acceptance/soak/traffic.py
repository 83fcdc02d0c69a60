"""Calls of every kind to the other workers of the group, for as long as it lasts. Runs inside of a worker of the acceptance tests."""


class Traffic:
    def __init__(self, others):
        self.others, self.stopped = others, threading.Event()
        self.rounds, self.failure, self.spent = 0, None, []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        small, large = torch.ones(4), torch.ones(64 * 1024)
        try:
            while not self.stopped.wait(0.002):
                for to, module in self.others.items():
                    start = time.perf_counter()
                    assert torch.equal(rpc.rpc_sync(to, module.same, (small,)), small)
                    self.spent = [*self.spent[-9_999:], time.perf_counter() - start]
                    assert torch.equal(rpc.rpc_sync(to, module.same, (large,)), large)
                    assert rpc.rpc_sync(to, module.same, ({"a": [1, 2.5, "three"]},)) == {"a": [1, 2.5, "three"]}
                    assert rpc.remote(to, torch.add, (small, 1)).to_here().sum() == 8
                    assert rpc.remote(to, module.Counter, (3,)).rpc_sync().add(4) == 7
                    try:
                        rpc.rpc_sync(to, module.fails, ("on purpose",))
                        raise AssertionError("no error")
                    except Exception as error:
                        assert "on purpose" in str(error), error
                    with dist_autograd.context() as context:
                        x = torch.ones(2, requires_grad=True)
                        dist_autograd.backward(context, [rpc.rpc_sync(to, module.squared, (x,)).sum()])
                        assert dist_autograd.get_gradients(context)[x].tolist() == [2, 2]
                self.rounds += 1
        except BaseException:
            self.failure = traceback.format_exc()

    def p99(self):
        """In microseconds, of the calls with four floats."""
        spent = sorted(self.spent)
        return int(spent[len(spent) * 99 // 100] * 1e6)

    def stop(self):
        self.stopped.set()
        self.thread.join()
        return self.failure


def resident():
    import gc

    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
