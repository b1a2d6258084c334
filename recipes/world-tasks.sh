#!/bin/sh
# Every task of the little world from one pre-trained model, and from the same network without pre-training.
#
#     sh recipes/world-tasks.sh runs/world my-world runs/tasks
#
# RUN is a model of the world (recipes/little-world.toml), WORLD the output of `albertine world write`. If
# interrupted, run the same command again to resume. The last two tables show the metrics; WORLD/README.md has
# those of a bag of words. Options after OUT are passed to every run, such as --seeds 3.
set -eu

run=$1
world=$2
out=$3
shift 3
tasks="cola sst-2 mrpc sts-b qqp mnli qnli rte wnli squad-1.1 squad-2.0 race"

for task in $tasks; do
    albertine finetune "$run" --task "$task" --data "$world" --out "$out/$task" "$@"
    albertine finetune "$run" --task "$task" --data "$world" --out "$out/random-$task" --random-weights "$@"
done

for start in "" random-; do
    models=""
    for task in $tasks; do
        models="$models $out/$start$task"
    done
    # shellcheck disable=SC2086  # several words
    albertine evaluate $models --data "$world"
done
