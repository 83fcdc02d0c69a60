# A worker of stock PyTorch.
import helpers  # noqa: F401: what is called has to be importable by its name
from torch.distributed import rpc

rpc.init_rpc("python", rank=0, world_size=2)
rpc.shutdown()
