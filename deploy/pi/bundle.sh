# shellcheck shell=sh disable=SC2154 # names that deploy/pi/install sets
# The bundle of `opjoule fleet add`: part of deploy/pi/install.

# The folder with the bundle's files, as $from. All that can be wrong with it is said before anything is changed.
open_bundle() {
    from=$bundle
    [ ! -f "$bundle" ] || unpack_bundle
    for name in ca.pem client.pem client.key password opjoule.env; do
        [ -f "$from/$name" ] || fail "$bundle is no bundle of opjoule fleet add: it has no $name"
    done
    username=$(sed -n 's/^OPJOULE_BROKER_USERNAME=//p' "$from/opjoule.env")
    case $username in
        */meter/*) of=meter ;;
        */*) of=runner ;;
        *) of=${username%%.*} ;;
    esac
    [ "$of" = "$role" ] || fail "$bundle is of ${username:-nobody}, no $role: make one on the hub with opjoule fleet add $role"
}

unpack_bundle() {
    scratch=$(mktemp -d)
    tar --no-same-owner -C "$scratch" -xf "$bundle" 2>/dev/null \
        || fail "$bundle is no bundle of opjoule fleet add: tar cannot read it"
    found=$(find "$scratch" -name opjoule.env)
    [ -n "$found" ] || fail "$bundle is no bundle of opjoule fleet add: it has no opjoule.env"
    [ "$(echo "$found" | wc -l)" -eq 1 ] || fail "$bundle holds several bundles: make an archive of the one for this board"
    from=$(dirname "$found")
}

# Paths in its settings are those of its place here, whatever place it was made for.
copy_bundle() {
    for name in ca.pem client.pem client.key password opjoule.env; do
        run install -m 0640 -g opjoule "$from/$name" "$1/$name"
    done
    run sed -i "s#^\(OPJOULE_BROKER_[A-Z]*_FILE=\).*/#\1/etc/opjoule/$role/#" "$1/opjoule.env"
}
