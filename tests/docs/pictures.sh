#!/bin/bash
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes the pictures of the manual again, from demo models and without a display: pictures.sh [BUILD FOLDER].
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
headroom=${1:-$root/build}/bin/torch-headroom
pictures=$root/resources/manual/pictures
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export QT_QPA_PLATFORM=offscreen

step=$place/transformer.hrs
"$headroom" record demo:transformer --set n_layers=12 --set vocab_size=50257 --batch 32 --gpu rtx-4090-24gb -o "$step"
"$headroom" plan "$step" --budget 20GiB -o "$place/policy.json" > /dev/null
"$headroom" record demo:resnet --batch 8 --optimizer sgd --device cpu -o "$place/measured.hrs"
"$headroom" record demo:resnet --batch 8 --optimizer sgd -o "$place/predicted.hrs"

window=(--size 1280x800 --theme light --calibration none)
"$headroom" screenshot "$step" "$place/window.png" --budget 20GiB "${window[@]}"
"$headroom" screenshot "$step" "$place/ops.png" --budget 20GiB --ops "${window[@]}"
"$headroom" screenshot "$place/predicted.hrs" "$place/measured.png" --measured "$place/measured.hrs" "${window[@]}"
"$headroom" export "$step" "$place/timeline.png" --timeline --policy "$place/policy.json" --calibration none
"$headroom" export "$step" "$place/frontier.png" --frontier --calibration none

python3 "$root/tests/docs/small_png.py" "$place"/*.png
mkdir -p "$pictures"
cp "$place"/*.png "$pictures/"
ls -l "$pictures"
