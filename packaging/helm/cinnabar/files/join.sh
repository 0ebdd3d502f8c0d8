#!/bin/sh
# Makes one cluster of the pods that are not in one yet. Runs as a job after each installation and upgrade; what is joined stays.
set -eu

export REDISCLI_AUTH="${PASSWORD:-}"
port=${PORT:-6379}
name_of() { echo "$SET-$1.$DOMAIN"; }
ask() { timeout 5 cinnabar-cli --no-auth-warning -h "$1" -p "$port" CLUSTER "$2"; }

nodes=
at=0
while [ "$at" -lt "$PODS" ]; do
    until ask "$(name_of "$at")" INFO >/dev/null 2>&1; do sleep 1; done
    # Names may not be resolved by every node yet; addresses are what nodes exchange anyway.
    nodes="$nodes $(getent hosts "$(name_of "$at")" | awk 'NR == 1 {print $1}'):$port"
    at=$((at + 1))
done

if ! ask "$(name_of 0)" INFO | grep -q '^cluster_slots_assigned:16384'; then
    # shellcheck disable=SC2086
    cinnabar-cli --no-auth-warning --cluster create $nodes --cluster-replicas "$REPLICAS_PER_PRIMARY" --cluster-yes
    exit
fi
first=$(echo "$nodes" | awk "{print \$1}")
known=$(ask "$(name_of 0)" NODES)
for node in $nodes; do
    case "$known" in
        *" $node@"*) ;;
        *) cinnabar-cli --no-auth-warning --cluster add-node "$node" "$first" --cluster-replica ;;
    esac
done
