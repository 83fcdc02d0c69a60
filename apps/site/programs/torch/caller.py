import operator

import words
from torch.distributed import rpc

rpc.init_rpc("python", rank=0, world_size=2)
print(rpc.rpc_sync("node", words.lengths, (["to", "be"],)).tolist())  # by a stub
print(rpc.rpc_sync("node", operator.methodcaller, ("words.lengths", ["or", "not"])).tolist())  # without one
try:
    rpc.rpc_sync("node", words.lengths, ("no list",))
except TypeError as error:
    print("lengths of a list" in str(error), type(error).__name__)
rpc.shutdown()
