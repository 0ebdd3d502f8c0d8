#!/bin/sh
# Starts a server of the chart, and works out what it begins as. The environment says MODE, POD (this one's name), PODS (how many
# there are), SET and DOMAIN (pods are SET-0.DOMAIN and so on), PASSWORD, and where data and settings are.
#
# A server writes its own findings (its primary, other Sentinels, the nodes of the cluster) into its configuration file beside
# the data, so the file is made once, and includes the settings of the chart: each start reads them anew.
set -eu

data=${DATA:-/data}
settings=${SETTINGS:-/etc/cinnabar/chart.conf}
port=${PORT:-6379}
file=$data/cinnabar.conf

name_of() { echo "$SET-$1.$DOMAIN"; }
me=$POD.$DOMAIN

ask() { REDISCLI_AUTH=${PASSWORD:-} timeout 3 cinnabar-cli --no-auth-warning -h "$1" -p "$2" "$3" "$4" "$5" 2>/dev/null; }

# The primary's name, which the Sentinels within the other pods report; else the first pod, which every set begins with.
primary() {
    at=0
    while [ "$at" -lt "$PODS" ]; do
        if [ "$(name_of "$at")" != "$me" ]; then
            found=$(ask "$(name_of "$at")" "${SENTINEL_PORT:-26379}" SENTINEL get-master-addr-by-name primary | head -n 1) || found=
            if [ -n "$found" ]; then
                echo "$found"
                return
            fi
        fi
        at=$((at + 1))
    done
    name_of 0
}

if [ ! -e "$file" ]; then
    {
        echo "include $settings"
        echo "dir $data"
        echo "port $port"
        echo "protected-mode no"
        if [ "$MODE" = cluster ]; then
            echo "cluster-enabled yes"
            echo "cluster-node-timeout $NODE_TIMEOUT"
            echo "cluster-announce-hostname $me"
            echo "cluster-preferred-endpoint-type hostname"
        fi
        if [ "$MODE" = replicated ]; then
            leader=$(primary)
            echo "replica-announce-ip $me"
            echo "replica-announce-port $port"
            if [ "$leader" != "$me" ]; then echo "replicaof $leader $port"; fi
            echo "sentinel-port ${SENTINEL_PORT:-26379}"
            echo "sentinel resolve-hostnames yes"
            echo "sentinel announce-hostnames yes"
            echo "sentinel announce-ip $me"
            echo "sentinel monitor primary $leader $port $((PODS / 2 + 1))"
            echo "sentinel down-after-milliseconds primary $DOWN_AFTER"
            echo "sentinel failover-timeout primary 60000"
        fi
    } > "$file.new"
    mv "$file.new" "$file"
fi

# The password is the present one, whatever the file has from earlier starts, and is read from the standard input: a
# list of processes does not show it.
quoted=\"$(printf %s "${PASSWORD:-}" | sed 's/[\\"]/\\&/g')\"
grep -vE '^(requirepass|primaryauth|user default|sentinel auth-pass primary) ' "$file" > "$file.new"
if [ "$MODE" = replicated ] && [ -n "${PASSWORD:-}" ]; then
    echo "sentinel auth-pass primary $quoted" >> "$file.new"
fi
mv "$file.new" "$file"
if [ "$MODE" = cluster ]; then
    # A server that is to end hands its slots over first.
    set -- "$@" --shutdown-on-sigterm failover
fi
if [ "${ADMIN_PORT:-0}" != 0 ]; then
    set -- "$@" --admin-port "$ADMIN_PORT" --admin-bind '*'
fi
if [ -z "${PASSWORD:-}" ]; then
    exec cinnabar-server "$file" "$@"
fi
exec cinnabar-server "$file" "$@" - <<END
requirepass $quoted
primaryauth $quoted
END
