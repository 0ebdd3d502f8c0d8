#!/bin/sh
# A server that answers is healthy, also with an error that asks for a password or reports that the data set is being
# read.
# Options are meant to be split.
# shellcheck disable=SC2086
answer=$(cinnabar-cli -h "${HEALTHCHECK_HOST:-127.0.0.1}" -p "${HEALTHCHECK_PORT:-6379}" ${HEALTHCHECK_OPTIONS} PING 2>&1)
case "$answer" in
    PONG | *NOAUTH* | *LOADING* | *MASTERDOWN* | *NOPERM*) exit 0 ;;
    *) echo "$answer"; exit 1 ;;
esac
