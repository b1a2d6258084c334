#!/bin/bash
# Runs the jobs of one command on all nodes of a Slurm job, on a Ray cluster that ends with it:
#
#     sbatch --nodes 4 --cpus-per-task 32 recipes/slurm/ray.sh study table-5 --scale evening --out /shared/studies
#
# Two minutes before its time limit, and when another job takes its nodes, the command is interrupted, and ends
# with status 143. Then the job is queued again, and resumes. After an error it is not queued again.
#SBATCH --job-name=albertine
#SBATCH --ntasks-per-node=1
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append

export HEAD PORT=$((20000 + SLURM_JOB_ID % 10000))  # jobs may share a node
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export RAY_ADDRESS="$HEAD:$PORT" SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"

# Other users of the nodes can reach Ray's ports, so it asks for a token, which is stored in ~/.ray.
export RAY_AUTH_MODE=token
ray get-auth-token --generate > /dev/null || exit 1

start_ray() {
    if [ "$SLURM_PROCID" = 0 ]; then
        address=$(getent ahosts "$HEAD" | awk '{ print $1; exit }')
        set -- --head --port "$PORT" --node-ip-address "$address"
    else
        wait_for_ray
        set -- --address "$RAY_ADDRESS"
    fi
    exec ray start --num-cpus "$SRUN_CPUS_PER_TASK" --disable-usage-stats --block "$@"
}
wait_for_ray() {
    for _ in {1..60}; do
        if ray status > /dev/null 2>&1; then return; fi
        sleep 1
    done
    echo "Ray did not start on $HEAD" >&2
    exit 1
}
run_command() {
    wait_for_ray
    # The signal that interrupts the command ends Ray too, which may end the command first, with another status.
    trap 'interrupted=143' TERM
    albertine "$@" --cluster ray
    status=$?
    if [ "$status" = 0 ]; then exit 0; fi
    exit "${interrupted:-$status}"
}
export -f start_ray wait_for_ray run_command

srun bash -c start_ray &  # until this script ends, or for 30 seconds after SIGTERM
srun --overlap --nodes 1 --ntasks 1 --nodelist "$HEAD" bash -c 'run_command "$@"' - "$@"
status=$?
if [ "$status" = 143 ]; then
    echo "interrupted; job $SLURM_JOB_ID is queued again" >&2
    scontrol requeue "$SLURM_JOB_ID" && sleep 600  # until Slurm ends the script
fi
exit "$status"
