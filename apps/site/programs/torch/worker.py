import model  # what is called has to be importable by its name
from torch.distributed import rpc

rpc.init_rpc("python", rank=0, world_size=2)
rpc.shutdown()  # answers calls until all have come to their end
