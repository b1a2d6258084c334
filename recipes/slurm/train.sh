#!/bin/bash
# Pre-trains or fine-tunes one model with all tasks of a Slurm job, one task per GPU:
#
#     sbatch --nodes 4 --ntasks-per-node 8 --gpus-per-node 8 recipes/slurm/train.sh \
#         pretrain --config recipes/paper/albert-large.toml --corpus my-corpus --out /shared/runs/large
#
# Two minutes before its time limit, and when another job takes its nodes, the run writes a checkpoint and
# ends with status 143. Then the job is queued again, and resumes. After an error it is not queued again.
#SBATCH --job-name=albertine
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append

export MASTER_ADDR MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))  # jobs may share a node
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}" OMP_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}"

# shellcheck disable=SC2016  # each task expands them
srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS exec albertine "$@"' - "$@"
status=$?
if [ "$status" = 143 ]; then scontrol requeue "$SLURM_JOB_ID" && sleep 600; fi  # until Slurm ends the script
exit "$status"
