#!/bin/bash
# Starts workers with Open MPI's mpirun; Troupe uses its variables, not its messages.
#   WORKERS=2 examples/deploy/mpirun.sh ./mnist --epochs 3                       # on this machine
#   HOSTS=a:1,b:1 examples/deploy/mpirun.sh ./mnist --model-dir /shared/run1     # one on each of a and b
# HOSTS is mpirun's --host; its first machine has rank 0. Several machines need a secret: make a file
# by `troupe secret FILE`, copy it to each of them, and name it in TROUPE_SECRET_FILE.
set -eu

if [ -z "${HOSTS:-}" ]; then
  # By default mpirun would bind each of two workers to one core.
  exec mpirun -np "${WORKERS:-2}" --bind-to none "$@"
fi
first=${HOSTS%%,*}
slots=0
for host in ${HOSTS//,/ }; do
  case $host in *:*) slots=$((slots + ${host##*:})) ;; *) slots=$((slots + 1)) ;; esac
done
secret=()
[ -z "${TROUPE_SECRET_FILE:-}" ] || secret=(-x TROUPE_SECRET_FILE)
# Open MPI does not say where rank 0 runs; -x passes a variable on to the other machines.
exec mpirun -np "${WORKERS:-$slots}" --host "$HOSTS" --map-by slot --bind-to none \
  -x MASTER_ADDR="${first%%:*}" -x MASTER_PORT="${MASTER_PORT:-2222}" \
  -x TROUPE_GENERATION="${TROUPE_GENERATION:-0}" "${secret[@]}" "$@"
