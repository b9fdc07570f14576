#!/bin/bash
# hosts.expand for Kubernetes: makes a Job of one pod for each SLOTS_PER_POD (1) missing slots, waits until the pods run, and
# prints them. HELPER is the Job's manifest (helper.yaml beside this file). HEAD_POD and HEAD_UID name the pod of the run.
set -euo pipefail

slots=${SLOTS_PER_POD:-1}
pods=$(((ELASTICTRAIN_MISSING_SLOTS + slots - 1) / slots))
helper=${HELPER:-$(dirname "$0")/helper.yaml}
run=$(printf 'run.%s' "$ELASTICTRAIN_JOB_ID" | tr -c 'A-Za-z0-9.' - | cut -c1-60 | sed 's/[-.]*$//')
jobs=()

# A kill during the wait also deletes the Jobs.
trap '[ ${#jobs[@]} = 0 ] || kubectl delete --wait=false --ignore-not-found "${jobs[@]}" >&2' EXIT

for _ in $(seq "$pods"); do
  jobs+=("$(sed "s|RUN_NAME|$run|; s|HEAD_POD|$HEAD_POD|; s|HEAD_UID|$HEAD_UID|" "$helper" | kubectl create -f - -o name)")
done

hosts=()
for job in "${jobs[@]}"; do
  name=${job#*/}
  while true; do
    found=$(kubectl get pods --selector="job-name=$name" --ignore-not-found --no-headers \
      --output=custom-columns=NAME:.metadata.name,PHASE:.status.phase)
    read -r pod phase <<<"$found" || true
    case ${phase:-Pending} in
      Running) break ;;
      Pending) sleep 1 ;; # or there is no pod yet, because a queue has not admitted the Job
      *)
        echo "pod $pod of $job is $phase" >&2
        exit 1
        ;;
    esac
  done
  hosts+=("$pod slots=$slots job=$name")
done
printf '%s\n' "${hosts[@]}"
trap - EXIT
