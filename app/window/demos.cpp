// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/demos.h"

#include <QCoreApplication>

namespace headroom {
namespace {

QString tr(const char* text)
{
    return QCoreApplication::translate("Demos", text);
}

} // namespace

std::vector<DemoModel> demoModels()
{
    const auto words = [](const char* line) { return QString::fromLatin1(line).split(QLatin1Char(' ')); };
    // No demo fits the demo's card, so that there is something to plan.
    return {
        {tr("Transformer, 24 layers of width 1024"), tr("batch 16 of 1024 tokens, AdamW: 32 GiB on a 24 GB RTX 4090"),
         words("demo:transformer --batch 16 --seq 1024 --optimizer adamw --gpu rtx-4090-24gb --set n_layers=24 "
               "--set dim=1024 --set n_heads=16 --set vocab_size=50304 --set max_seq_len=1024"),
         QStringLiteral("transformer")},
        {tr("ResNet-50"), tr("batch 256 of 224 × 224 images, SGD: 21 GiB on a 16 GB T4"),
         words("demo:resnet --batch 256 --optimizer sgd --gpu t4-16gb --set depth=50"), QStringLiteral("resnet50")},
        {tr("MLP, 24 blocks of width 2048"), tr("batch 256 of 256 vectors, AdamW: 43 GiB on a 24 GB RTX 4090"),
         words("demo:mlp --batch 256 --seq 256 --optimizer adamw --gpu rtx-4090-24gb --set n_layers=24 "
               "--set dim=2048"),
         QStringLiteral("mlp")},
    };
}

} // namespace headroom
