#!/bin/sh
# Before a pod ends: a primary whose replicas follow hands over, by the Sentinel within. In a cluster the server does that itself.
set -u

ask() {
    port=$1
    shift
    REDISCLI_AUTH=${PASSWORD:-} timeout 3 cinnabar-cli --no-auth-warning -p "$port" "$@" 2>/dev/null
}
leads() { ask "${PORT:-6379}" ROLE | head -n 1 | grep -q master; }

# A Sentinel refuses while it does not know yet that a replica follows, and while it is at it.
if [ "$MODE" = replicated ]; then
    for _ in $(seq "${PATIENCE:-30}"); do
        leads || break
        ask "${SENTINEL_PORT:-26379}" SENTINEL FAILOVER primary COORDINATED
        sleep 1
    done
fi
exit 0
