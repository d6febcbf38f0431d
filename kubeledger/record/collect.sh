#!/bin/sh
# What a node's kubelet left, as a directory that `kubeledger import` reads whole.
#
#   sh collect.sh > NODE.tar.gz        as root on the node, or where kubectl reaches the cluster
#
# Settings, all by environment:
#   NODE    the node's name in the cluster (default: this machine's name)
#   PARTS   "node" (files and journal of this machine), "api" (through kubectl), or both (default)
#   SINCE   oldest log that is taken, as `journalctl --since` writes it (default: all)
#   ROOT    where the node's root directory is mounted (default: nothing before /)
#   OUT     a directory to leave the files in, instead of a tar archive on standard output
#
# It reads only, and never what holds secrets: no kubeconfig, key or token, nothing below
# pods/ of the kubelet's directory, no file that sets staticPodURLHeader. Pod lists hold what
# `kubectl get pods -o yaml` shows. What is absent becomes a line of manifest.txt, and no failure.

set -u
umask 077
LC_ALL=C
export LC_ALL
PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/var/lib/rancher/rke2/bin"
PATH="$PATH:/opt/bin:/snap/bin"

ROOT=${ROOT-}
SINCE=${SINCE-}
PARTS=${PARTS:-node api}
NODE=${NODE:-$(hostname)}
STAMP=$(date -u +%Y%m%dT%H%M%SZ)
WORK=${OUT:-$(mktemp -d)} || exit 1
mkdir -p "$WORK" || exit 1
[ -n "${OUT-}" ] || trap 'rm -rf "$WORK"' EXIT
SNAPSHOT=snapshots/$STAMP
KUBELET_DIR=$ROOT/var/lib/kubelet

say() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$WORK/manifest.txt"; }

# keep FILE: what was written into it is taken, unless it is empty.
keep() {
    if [ -s "$WORK/$1" ]; then
        say taken "$1" "$(wc -c <"$WORK/$1" | tr -d ' ') bytes"
    else
        rm -f "$WORK/$1"
        say absent "$1" "$2"
        return 1
    fi
}

# from FILE COMMAND...: the output of a command, and why there is none.
from() {
    name=$1
    shift
    mkdir -p "$WORK/$(dirname "$name")"
    if ! command -v "$1" >/dev/null 2>&1; then
        say absent "$name" "no $1 here"
        return 1
    fi
    if ! "$@" >"$WORK/$name" 2>"$WORK/.error" </dev/null; then
        rm -f "$WORK/$name"
    fi
    why=$(head -n 1 "$WORK/.error" | cut -c 1-200)
    rm -f "$WORK/.error"
    keep "$name" "${why:-$1 gave nothing}"
}

# copy FILE SOURCE: a file of the node, if it is there.
copy() {
    if [ ! -f "$2" ]; then
        say absent "$1" "no file ${2#"$ROOT"}"
    elif grep -q staticPodURLHeader "$2"; then
        say absent "$1" "not taken: ${2#"$ROOT"} sets staticPodURLHeader, which may be a secret"
    else
        from "$1" cat "$2"
    fi
}

# -- the node ------------------------------------------------------------------------------------

flag() { # the value of a flag of the kubelet that runs
    [ -r "$CMDLINE" ] || return 0
    tr '\0' '\n' <"$CMDLINE" | awk -v flag="--$1" '
        index($0, flag "=") == 1 { print substr($0, length(flag) + 2); exit }
        $0 == flag { getline; print; exit }'
}

find_kubelet() {
    CMDLINE=
    for line in "$ROOT"/proc/[0-9]*/cmdline; do
        name=$(tr '\0' '\n' 2>/dev/null <"$line" | head -n 1)
        case ${name##*/} in kubelet | kubelite | hyperkube) CMDLINE=$line && return ;; esac
    done
}

take_version() {
    if [ -n "$CMDLINE" ] && [ -x "${CMDLINE%/cmdline}/exe" ]; then
        from kubelet--version.txt "${CMDLINE%/cmdline}/exe" --version && return
    fi
    for program in kubelet k3s rke2 microk8s.kubelet; do
        if command -v "$program" >/dev/null 2>&1; then
            from kubelet--version.txt "$program" --version && return
        fi
    done
}

journal() { # of the node, in a form with the year and microseconds, where it has that
    form=short-iso-precise
    [ -n "$(journalctl -o $form -n 1 2>/dev/null </dev/null)" ] || form=short-iso
    set -- --no-pager --quiet --utc -o $form "$@"
    [ -z "$ROOT" ] || set -- "$@" --directory "$ROOT/var/log/journal"
    journalctl "$@" </dev/null
}

take_log() {
    found=
    for unit in kubelet k3s k3s-agent rke2-server rke2-agent snap.kubelet-eks.daemon \
        snap.microk8s.daemon-kubelite microshift; do
        [ -n "$(journal -n 1 --unit "$unit" 2>/dev/null)" ] || continue
        set -- journal --unit "$unit"
        [ -z "$SINCE" ] || set -- "$@" --since "$SINCE"
        from "journal/$unit.log" "$@" && found=$unit
    done
    for file in "$ROOT"/var/log/kubelet.log* "$ROOT"/var/log/kubelet/*.log* \
        "$ROOT"/var/lib/rancher/rke2/agent/logs/kubelet*.log*; do
        [ -f "$file" ] || continue
        found=$file
        from "log/${file##*/}" cat "$file"
    done
    [ -n "$found" ] || say absent kubelet.log "no journal of a kubelet's unit, and no file of a log"
}

take_config() {
    file=$(flag config)
    for file in "${file:+$ROOT$file}" "$KUBELET_DIR/config.yaml" "$ROOT/etc/kubernetes/kubelet.conf.d" \
        "$ROOT/etc/kubernetes/kubelet/kubelet-config.json" "$ROOT/etc/kubernetes/kubelet/config.json"; do
        [ -f "$file" ] || continue
        copy "config/${file##*/}" "$file"
        break
    done
    [ -d "$WORK/config" ] || say absent config "no file of a KubeletConfiguration"
    directory=$(flag config-dir)
    [ -n "$directory" ] || return 0
    for file in "$ROOT$directory"/*.conf; do
        [ -f "$file" ] && copy "config/${file##*/}.yaml" "$file"
    done
}

take_state() {
    root=$(flag root-dir)
    [ -z "$root" ] || KUBELET_DIR=$ROOT$root
    copy "$SNAPSHOT/kubelet_internal_checkpoint" \
        "$KUBELET_DIR/device-plugins/kubelet_internal_checkpoint"
    for name in cpu_manager_state memory_manager_state pod_status_manager_state \
        allocated_pods_state actuated_pods_state dra_manager_state; do
        copy "$SNAPSHOT/$name" "$KUBELET_DIR/$name"
    done
}

take_endpoints() { # only where the kubelet answers without a token; else kubectl asks
    port=$(flag read-only-port)
    port=${port:-10255}
    for path in pods stats/summary metrics metrics/probes; do
        file=$(file_of_endpoint "$path")
        from "$file" curl -sSf --max-time 20 "http://127.0.0.1:$port/$path"
    done
}

file_of_endpoint() {
    case $1 in
    metrics) echo "$SNAPSHOT/metrics.txt" ;;
    metrics/probes) echo "$SNAPSHOT/metrics-probes.txt" ;;
    *) echo "$SNAPSHOT/$(echo "$1" | tr / -).json" ;;
    esac
}

cgroup_lines() (
    cd "$ROOT/sys/fs/cgroup" || exit 1
    if [ -f cgroup.controllers ]; then
        top=.
        files='cpu.max cpu.weight cpuset.cpus cpuset.mems memory.high memory.low memory.max
            memory.min memory.oom.group memory.swap.max pids.max hugetlb.*.max'
    else
        top='cpu cpuset hugetlb memory pids'
        files='cpu.cfs_period_us cpu.cfs_quota_us cpu.shares cpuset.cpus cpuset.mems
            hugetlb.*.limit_in_bytes memory.limit_in_bytes pids.max'
    fi
    set -f
    # shellcheck disable=SC2086 # lists of names
    set -- $files
    names=
    for name; do names="${names:+$names -o }-name $name"; done
    # shellcheck disable=SC2086 # lists of names and of conditions
    find -H $top -path '*kubepods*' -type f \( $names \) 2>/dev/null | sort |
        while IFS= read -r file; do
            printf '%s %s\n' "${file#./}" "$(cat "$file" 2>/dev/null)"
        done
)

oom_reports() { # lines of the OOM killer's reports, and no others of the kernel's log
    { journal -k || dmesg --time-format=iso; } 2>/dev/null | awk '
        /invoked oom-killer/ { inside = 1 }
        inside || /oom-kill:|Killed process|oom_reaper|are going to be killed/ { print }
        /Killed process|no killable processes/ { inside = 0 }'
}

take_node() {
    find_kubelet
    take_version
    take_log
    take_config
    take_state
    take_endpoints
    from "$SNAPSHOT/cgroupfs.txt" cgroup_lines
    from kernel.log oom_reports
    for what in images ps pods; do
        set -- "$what"
        [ "$what" != ps ] || set -- ps -a
        from "$SNAPSHOT/crictl_$what.json" crictl "$@" -o json
    done
}

# -- the cluster ---------------------------------------------------------------------------------

take_api() {
    if ! command -v kubectl >/dev/null 2>&1; then
        say absent api "no kubectl here"
        return
    fi
    raw=/api/v1/nodes/$NODE/proxy
    from "$SNAPSHOT/node.json" kubectl get node "$NODE" -o json || return 0
    from "$SNAPSHOT/pods-api.json" kubectl get pods --all-namespaces \
        --field-selector "spec.nodeName=$NODE" -o json
    from "$SNAPSHOT/events.json" kubectl get events --all-namespaces \
        --field-selector source=kubelet -o json
    for path in configz pods stats/summary metrics metrics/probes; do
        file=$(file_of_endpoint "$path")
        [ -f "$WORK/$file" ] || from "$file" kubectl get --raw "$raw/$path"
    done
    case " $PARTS " in
    *" node "*) ;;
    *) from log/kubelet.log kubectl get --raw "$raw/logs/?query=kubelet" ;;
    esac
}

# ------------------------------------------------------------------------------------------------

printf '%s\n' "$NODE" >"$WORK/node-name.txt"
date -u +%Y-%m-%dT%H:%M:%SZ >"$WORK/collected-at.txt"
for part in $PARTS; do
    case $part in
    node) take_node ;;
    api) take_api ;;
    *) echo "collect.sh: PARTS is made of node and api, not $part" >&2 && exit 2 ;;
    esac
done
if [ -z "${OUT-}" ]; then
    tar -C "$WORK" -cf - . | gzip
fi
