#!/bin/sh
# The start is that of the official images of Redis and Valkey: options or a configuration file alone are the server's,
# a server that is started by root continues as the user `cinnabar` and owns the files below its folder, and
# VALKEY_EXTRA_FLAGS (or CINNABAR_EXTRA_FLAGS) are appended.
set -e

# The first word is no program's name: `-f`, `--some-option`, `some.conf`.
if [ "${1#-}" != "$1" ] || [ "${1%.conf}" != "$1" ]; then
    set -- cinnabar-server "$@"
fi

case "$1" in
    cinnabar-server | valkey-server | redis-server | cinnabar-sentinel | valkey-sentinel | redis-sentinel) serves=yes ;;
    *) serves= ;;
esac

if [ -n "$serves" ] && [ "$(id -u)" = 0 ] && [ -z "$SKIP_DROP_PRIVS" ]; then
    # A volume that is read-only stays as it is.
    find . \! -user cinnabar -exec chown cinnabar '{}' + || true
    exec setpriv --reuid cinnabar --regid cinnabar --clear-groups -- "$0" "$@"
fi

# Files of the data set are readable for their owner only, unless the container has another umask.
if [ "$(umask)" = 0022 ]; then
    umask 0077
fi

if [ -n "$serves" ]; then
    # Clients reach a container through its published ports: the network and the password decide which are admitted,
    # where a configuration file has no setting for that.
    program=$1
    shift
    case "$1" in
        *.conf) configuration=$1; shift ;;
        *) configuration= ;;
    esac
    if [ -z "$configuration" ] || ! grep -qi '^[[:space:]]*protected-mode' "$configuration"; then
        set -- --protected-mode no "$@"
    fi
    # Words of the variables are options: they are meant to be split.
    # shellcheck disable=SC2086
    exec "$program" ${configuration:+"$configuration"} "$@" $VALKEY_EXTRA_FLAGS $CINNABAR_EXTRA_FLAGS
fi
exec "$@"
