#!/bin/sh
# Called by `git receive-pack` for each ref of a push, with what was pushed still in quarantine: REF OLD NEW.
# The server says in the environment what is allowed; an empty or missing value allows nothing, since no ref is empty.
ref=${1:?} new=${3:?}

refuse() {
    echo "omoi: $1" >&2
    exit 1
}

case $ref in
"${OMOI_PUSH_PRESERVED:?}" | "${OMOI_PUSH_SET_ASIDE:?}")
    exit 0
    ;;
"${OMOI_PUSH_BRANCH:-}")
    [ -z "$OMOI_PUSH_HOLDS" ] && exit 0
    git merge-base --is-ancestor "$OMOI_PUSH_HOLDS" "$new" && exit 0
    refuse "the branch would lose commits that were there before this sandbox; keep $OMOI_PUSH_HOLDS in its history"
    ;;
esac
refuse "this sandbox may not push to $ref"
