#!/bin/sh
# Stands for torch-headroom-record in tests of the window. The model's name says what it does:
#   copy:FILE   reports progress, then writes a copy of FILE as the recording
#   sizes:FOLDER  writes a copy of FOLDER/batch-N.hrs for --batch N; 13 is refused, 64 waits to be ended
#   cards:FOLDER  writes a copy of FOLDER/NAME.hrs for --gpu NAME
#   *.pt2       the same with the model itself
#   slow        writes half a file, says so, and waits to be ended
#   hang        the same, with a child and one in a session of its own; none ends when it is asked to
#   refuse      a message and exit code 2
#   crash       ends by a segmentation fault in the middle of the backward
#   killed      ends as by the kernel's out-of-memory killer
#   ended       ends as by kill
#   garbage     bytes that are no text, and no end of line, on stderr; then fails
#   flood       prints 20 MB of lines; then fails with a message
# `verify verify:WHAT --policy FILE` (or --ops-plan FILE) finds the plan kept or broken, crashes or waits, as WHAT says.
command="$1"
model="$2"
output=""
batch=""
gpu=""
policy=""
opsPlan=""
progress=no
while [ $# -gt 0 ]; do
    case "$1" in
        -o) output="$2" ;;
        --batch) batch="$2" ;;
        --gpu) gpu="$2" ;;
        --policy) policy="$2" ;;
        --ops-plan) opsPlan="$2" ;;
        --progress) progress=yes ;;
    esac
    shift
done
[ "$progress" = yes ] || { echo "fake: --progress is missing" >&2; exit 2; }

halfDone() {
    echo "half of a recording" > "$output.part"
    echo '{"done":0.25,"stage":"forward"}' >&2
}

if [ "$command" = verify ]; then
    if [ -n "$opsPlan" ]; then
        grep -q '"memory_budget"' "$opsPlan" || { echo "torch-headroom-record: no plan of ops" >&2; exit 2; }
        saved='"executed_saved_bytes": 536870912, "repeated_ops": 17,'
    else
        grep -q '"headroom_policy": 1' "$policy" || { echo "torch-headroom-record: no policy" >&2; exit 2; }
        saved=""
    fi
    echo '{"done":0.5,"stage":"policy"}' >&2
    case "$model" in
        verify:kept)
            echo '{"agrees": true, "reason": "", "executed_peak_bytes": 1073741824, "predicted_peak_bytes": 1073741824,
                   '"$saved"' "allocations": 1234, "gradients": {"compared": true, "parameters": 56}}'
            exit 0
            ;;
        verify:broken)
            echo '{"agrees": false, "reason": "executed memory differs from the predicted memory: at op 7",
                   "executed_peak_bytes": 2, "predicted_peak_bytes": 1, "gradients": {"compared": false}}'
            exit 1
            ;;
        verify:crash) kill -SEGV $$ ;;
        *) exec sleep 60 ;;
    esac
fi

case "$model" in
    copy:*)
        echo '{"done":0.0,"stage":"forward"}' >&2
        echo '{"done":0.5,"stage":"backward"}' >&2
        cp "${model#copy:}" "$output"
        ;;
    sizes:*)
        [ "$batch" = 13 ] && { echo "torch-headroom-record: --batch 13: expected an even number" >&2; exit 2; }
        [ "$batch" = 64 ] && { halfDone; exec sleep 60; }
        cp "${model#sizes:}/batch-$batch.hrs" "$output"
        ;;
    cards:*)
        cp "${model#cards:}/$gpu.hrs" "$output"
        ;;
    *.pt2)
        cp "$model" "$output"
        ;;
    slow)
        halfDone
        exec sleep 60
        ;;
    hang)
        trap '' TERM INT
        sleep 60 &
        child=$!
        setsid sleep 60 &
        echo "children $child $!" >&2
        halfDone
        while :; do sleep 1; done
        ;;
    refuse)
        echo "torch-headroom-record: demo:refuse: unknown model; known are demo:mlp, demo:transformer" >&2
        exit 2
        ;;
    crash)
        halfDone
        kill -SEGV $$
        ;;
    killed)
        halfDone
        kill -KILL $$
        ;;
    ended)
        halfDone
        kill -TERM $$
        ;;
    garbage)
        printf '\377\376\000\001{"done":\r\n{"done":7,"stage":"no"}\n{"done":0.5}\n\033[31mred\033[0m\rthe end' >&2
        exit 2
        ;;
    flood)
        yes '{"this is": "no progress", "but": "as long a line as a training loop may print again and again"}' \
            | head -c 20000000 >&2
        printf '\ntorch-headroom-record: too much was said\n' >&2
        exit 2
        ;;
esac
