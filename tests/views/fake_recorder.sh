#!/bin/sh
# Stands for headroom-record in tests of the window. The model's name says what it does:
#   copy:FILE   reports progress, then writes a copy of FILE as the recording
#   *.pt2       the same with the model itself
#   slow        writes half a file, says so, and waits to be ended
#   refuse      a message and exit code 2
#   crash       ends by a signal
model="$2"
output=""
progress=no
while [ $# -gt 0 ]; do
    case "$1" in
        -o) output="$2" ;;
        --progress) progress=yes ;;
    esac
    shift
done
[ "$progress" = yes ] || { echo "fake: --progress is missing" >&2; exit 2; }
case "$model" in
    copy:*)
        echo '{"done":0.0,"stage":"forward"}' >&2
        echo '{"done":0.5,"stage":"backward"}' >&2
        cp "${model#copy:}" "$output"
        ;;
    *.pt2)
        cp "$model" "$output"
        ;;
    slow)
        echo "half of a recording" > "$output.part"
        echo '{"done":0.25,"stage":"forward"}' >&2
        exec sleep 60
        ;;
    refuse)
        echo "headroom-record: demo:refuse: unknown model; known are demo:mlp, demo:transformer" >&2
        exit 2
        ;;
    crash)
        kill -SEGV $$
        ;;
esac
