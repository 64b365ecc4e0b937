# shellcheck shell=sh
# A Debian 12 of a test's own, in the folder $chroot; needs root. Sourced by the tests beside it.

: "${chroot:?}"

mirror() {
    { cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null; } |
        sed -nE 's/^(URIs:|deb) *(http[^ ]*\/debian)\/?( .*)?$/\2/p' | head -n 1
}

# make_debian FOLDER: with what every Debian has, and nothing else. It fetches packages from where this machine fetches them, and trusts
# the authorities that this machine trusts.
make_debian() {
    debootstrap --variant=minbase bookworm "$1" "$(mirror)" || return 1
    rm -f "$1/etc/apt/sources.list"
    cp -r /etc/apt/. "$1/etc/apt/" && cp /etc/resolv.conf /etc/hosts "$1/etc/" || return 1
    if [ -e /etc/pip.conf ]; then cp /etc/pip.conf "$1/etc/" || return 1; fi
    if [ -d /usr/local/share/ca-certificates ]; then cp -r /usr/local/share/ca-certificates "$1/usr/local/share/"; fi
}

# inside COMMAND…: in that Debian.
inside() {
    chroot "$chroot" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}
