"""One rank of a torch.distributed group over Gloo that comes together and leaves, as start_up.py starts
it: the place is in RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. stdout: one line, {"rank": R, "imported":
T, "ready": T}, in seconds of time.monotonic()."""

import datetime
import json
import os
import time

import torch.distributed

imported = time.monotonic()
torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
ready = time.monotonic()
print(json.dumps({"rank": int(os.environ["RANK"]), "imported": imported, "ready": ready}), flush=True)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
