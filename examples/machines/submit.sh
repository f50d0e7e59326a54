#!/bin/bash
set -euo pipefail
array=$(sbatch --parsable evals.sbatch)
sbatch --dependency="afterany:$array" verdict.sbatch
