"""Runs PyTorch's own tests of RPC with one rank left out: that one is played elsewhere.

Reads requests, a line of JSON each, and answers each with a line. All of torch is loaded once; every rank of every test is a fork.
Where a test is run "apart", its stores are served by a process that outlives all ranks, as the files of PyTorch's own runs do. Else
rank 0 serves them, and its process stays until the next test: who is last to leave may read them after rank 0 is through.

    {"list": "RpcTest"}  ->  {"tests": [...]}
    {"class": "RpcTest", "test": "test_add", "without": 1, "rpc": "tcp://…", "group": "tcp://…", "apart": false, "seconds": 60}
        ->  {"ranks": {"0": {"result": "pass"}, "2": {"result": "fail", "text": "…"}, …}}
"""
import faulthandler
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
import types
import unittest
import urllib.parse

try:
    import expecttest  # noqa: F401 -- torch's helpers of tests want it, and use its TestCase alone
except ImportError:
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)

import torch
import torch.distributed as dist
from torch.testing._internal.common_distributed import TEST_SKIPS
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.distributed.nn.api import remote_module_test
from torch.testing._internal.distributed.rpc import dist_autograd_test, dist_optimizer_test, rpc_test
from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import TensorPipeRpcAgentTestFixture

torch.set_num_threads(1)
# Seconds that the others have when a rank has failed.
AFTER_FAILURE = 2
# Before their time is over, ranks say where they stand, in seconds.
BEFORE_END = 1

# With these codes the tests end their process where the machine lacks something.
SKIPS = {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}

# The tests have a module of their own, for those that name their class to others.
mixed_tests = sys.modules["mixed_tests"] = types.ModuleType("mixed_tests")


class Places:
    """Where the stores are: those of the tests are files, which only processes of torch can open."""

    rpc = group = ""


class Rank(TensorPipeRpcAgentTestFixture):
    """What MultiProcessTestCase gives the tests beside its processes."""

    @property
    def init_method(self):
        return Places.rpc

    @property
    def file_init_method(self):
        return Places.group

    def __getstate__(self):
        # Some tests send a method of their own case: the others need no more of it than its class.
        return {"of": "a test"}

    def __setstate__(self, state):
        TestCase.__init__(self, "run")


def case(test_class):
    made = type(f"Mixed{test_class.__name__}", (Rank, test_class, TestCase), {"__module__": "mixed_tests"})
    setattr(mixed_tests, made.__name__, made)
    return made


CLASSES = {
    each.__name__: case(each)
    for each in (
        rpc_test.RpcTest,
        rpc_test.TensorPipeAgentRpcTest,
        dist_autograd_test.DistAutogradTest,
        dist_autograd_test.TensorPipeAgentDistAutogradTest,
        dist_optimizer_test.DistOptimizerTest,
        remote_module_test.RemoteModuleTest,
        remote_module_test.ThreeWorkersRemoteModuleTest,
    )
}


# Nobody writes to it: it ends with this process.
alive = os.pipe()


class Stores:
    """The process that serves the stores of the test that runs apart; another rank may still read them when the last one here ends."""

    def __init__(self, *endpoints):
        ready, served = os.pipe()
        over, self.control = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.control)
            os.close(alive[1])
            stores = [dist.TCPStore(*where(each), is_master=True, wait_for_workers=False) for each in endpoints]
            os.write(served, b"1")
            os.read(over, 1)
            del stores
            os._exit(0)
        os.close(served)
        os.close(over)
        os.read(ready, 1)
        os.close(ready)

    def end(self):
        os.close(self.control)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def where(endpoint):
    url = urllib.parse.urlparse(endpoint)
    return url.hostname, url.port


def play(name, test, rank):
    """One rank of one test, in a process of its own."""
    original = dist.init_process_group

    def init_process_group(*args, **kwargs):
        # Both groups of a test may name one file; over TCP their stores are two.
        kwargs["init_method"] = Places.group
        return original(*args, **kwargs)

    dist.init_process_group = init_process_group
    made = CLASSES[name](test)
    made.rank = rank
    made.file_name = tempfile.mktemp(prefix="mixed_")
    try:
        getattr(made, test)()
        return {"result": "pass"}
    except unittest.SkipTest as skipped:
        return {"result": "skip", "text": str(skipped)}
    except SystemExit as end:
        if end.code in SKIPS:
            return {"result": "skip", "text": SKIPS[end.code]}
        return {"result": "pass" if end.code in (0, None) else "fail", "text": f"exit {end.code}"}
    except BaseException:
        return {"result": "fail", "text": traceback.format_exc()[-6_000:]}


def forked(name, test, rank, seconds, stays):
    """A pipe that brings how the rank fared, and what it said, in the end where it stood; its process, which stays if it is told to."""
    read, write = os.pipe()
    said = tempfile.TemporaryFile()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.close(alive[1])
        os.setpgid(0, 0)
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        faulthandler.enable()
        faulthandler.dump_traceback_later(max(1, seconds - BEFORE_END))
        outcome = play(name, test, rank)
        sys.stdout.flush()
        os.write(write, json.dumps(outcome).encode())
        os.close(write)
        if stays:
            faulthandler.cancel_dump_traceback_later()
            os.read(alive[0], 1)
        # As in torch's own processes: nothing is torn down that a test left open.
        os._exit(0)
    os.close(write)
    return read, pid, said


stores = None
# The process of the rank 0 that stays.
staying = None


def end_staying():
    global staying
    if staying is not None:
        os.kill(staying, signal.SIGKILL)
        os.waitpid(staying, 0)
        staying = None


def run(request):
    global stores, staying
    end_staying()
    name, test, without = request["class"], request["test"], request["without"]
    Places.rpc, Places.group = request["rpc"], request["group"]
    if stores is not None:
        stores.end()
    stores = Stores(Places.rpc, Places.group) if request["apart"] else None
    # As under torchrun: no rank serves a store.
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = str(stores is not None)
    size = CLASSES[name]("run").world_size
    ends = time.monotonic() + request["seconds"]

    def failed(rank):
        return b'"fail"' in texts[rank]

    serves = 0 if stores is None else -1
    started = {
        rank: forked(name, test, rank, request["seconds"], rank == serves) for rank in range(size) if rank != without
    }
    outcomes = {}
    texts = {rank: b"" for rank in started}
    open_pipes = {read: rank for rank, (read, _, _) in started.items()}
    while open_pipes and time.monotonic() < ends:
        ready, _, _ = select.select(list(open_pipes), [], [], max(0, ends - time.monotonic()))
        for read in ready:
            rank = open_pipes[read]
            part = os.read(read, 65_536)
            texts[rank] += part
            if not part:
                del open_pipes[read]
                os.close(read)
                if failed(rank):
                    # The others wait for it, some of them for ever.
                    ends = min(ends, time.monotonic() + AFTER_FAILURE)
    for read, rank in open_pipes.items():
        os.kill(started[rank][1], signal.SIGKILL)
        os.close(read)
    for rank, (_, pid, said) in started.items():
        if rank == serves and texts[rank]:
            staying, status = pid, 0
        else:
            _, status = os.waitpid(pid, 0)
        outcome = json.loads(texts[rank]) if texts[rank] else {"result": "fail", "text": "no end in time"}
        if not texts[rank] and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            outcome["text"] = f"the process ended with status {status}"
        if outcome["result"] == "fail":
            said.seek(0)
            outcome["said"] = said.read()[-3_000:].decode(errors="replace")
        said.close()
        outcomes[rank] = outcome
    return {"ranks": outcomes}


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if "list" in request:
            made = CLASSES[request["list"]]
            tests = unittest.TestLoader().getTestCaseNames(made)
            answer = {"tests": [test for test in tests], "size": made("run").world_size}
        else:
            answer = run(request)
        print(json.dumps(answer), flush=True)
    end_staying()
    if stores is not None:
        stores.end()


if __name__ == "__main__":
    main()
