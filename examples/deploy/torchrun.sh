#!/bin/bash
# Starts workers with torchrun, which restarts all when one fails.
#   WORKERS=2 examples/deploy/torchrun.sh ./mnist --model-dir run1               # on this machine
#   NODES=2 WORKERS=1 RENDEZVOUS=a:29400 examples/deploy/torchrun.sh ./mnist --model-dir /shared/run1
# Run the second line on each machine; a is one of them. Several machines need a secret: make a file
# by `troupe secret FILE`, copy it to each of them, and name it in TROUPE_SECRET_FILE.
set -eu

# Option names use _, which every torchrun accepts; since 2.0 it also accepts --no-python.
exec torchrun --nnodes "${NODES:-1}" --nproc_per_node "${WORKERS:-2}" \
  --rdzv_backend c10d --rdzv_endpoint "${RENDEZVOUS:-localhost:29400}" --rdzv_id "${JOB:-troupe}" \
  --max_restarts "${MAX_RESTARTS:-10}" --no_python "$@"
