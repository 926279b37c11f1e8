#!/bin/sh
# Stands for a Python with the package torch-headroom in tests of the window, or without it when a file `no-package` lies
# beside the script. `-c …` answers what it has; `-m torch_headroom.record … SCRIPT` does what the script's name says:
#   copies.py   prints its arguments and folder, reports progress and writes a copy of step.hrs beside the script; if
#               full.hrs is there, it ends out of memory with a copy of that, unless --unlimited is given
#   raises.py   the same, then ends with an exception
#   fails.py    an exception before any step
#   imports.py  cannot import another package, and others print after that
#   missing.py  Python finds no package
#   nothing.py  ends well without a step
#   waits.py    says so and waits to be ended
if [ "$1" = -c ]; then
    found=true
    [ -e no-package ] && found=false
    echo "{\"python\": \"3.11.7\", \"torch\": \"2.11.0\", \"headroom\": $found}"
    exit 0
fi
[ "$1 $2" = "-m torch_headroom.record" ] || { echo "fake: expected -m torch_headroom.record" >&2; exit 2; }
shift 2
output=""
gpu=""
unlimited=no
while [ $# -gt 0 ]; do
    case "$1" in
        -o) output="$2"; shift 2 ;;
        --gpu) gpu="$2"; shift 2 ;;
        --steps) shift 2 ;;
        --unlimited) unlimited=yes; shift ;;
        --progress) shift ;;
        *) break ;;
    esac
done
script="$1"
shift
case "$script" in
    */waits.py)
        echo '{"done":0.25,"stage":"forward"}' >&2
        echo "waiting"
        exec sleep 60
        ;;
    */fails.py)
        echo "Traceback (most recent call last):" >&2
        echo "ValueError: no data in ./data" >&2
        exit 1
        ;;
    */imports.py)
        echo "Traceback (most recent call last):" >&2
        echo "  File \"imports.py\", line 1, in <module>" >&2
        echo "ModuleNotFoundError: No module named 'datasets'" >&2
        echo "torch_headroom.record: imports.py raised ModuleNotFoundError: No module named 'datasets'" >&2
        echo "[W1125 ProcessGroup.cpp:1] Warning: destroy_process_group() was not called" >&2
        exit 2
        ;;
    */missing.py)
        echo "python3: Error while finding module specification for 'torch_headroom.record'" \
            "(ModuleNotFoundError: No module named 'torch_headroom')" >&2
        exit 1
        ;;
    */nothing.py) exit 0 ;;
esac
echo "arguments: $*"
echo "folder: $(pwd), gpu: $gpu"
echo '{"done":0.5,"stage":"step 1"}' >&2
if [ -e "$(dirname "$script")/full.hrs" ] && [ $unlimited = no ]; then
    cp "$(dirname "$script")/full.hrs" "$output"
    echo "torch_headroom.record: $script: out of memory" >&2
    exit 2
fi
cp "$(dirname "$script")/step.hrs" "$output"
case "$script" in
    */raises.py)
        echo "Traceback (most recent call last):" >&2
        echo "RuntimeError: after the step" >&2
        exit 1
        ;;
esac
