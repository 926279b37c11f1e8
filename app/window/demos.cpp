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
    return {
        {tr("Transformer, 12 layers of width 768"), tr("batch 16 of 512 tokens, Adam, NVIDIA A100 40 GB"),
         words("demo:transformer --batch 16 --seq 512 --optimizer adam --gpu a100-40gb --set n_layers=12 --set dim=768 "
               "--set n_heads=12 --set vocab_size=50304 --set max_seq_len=512"),
         QStringLiteral("transformer")},
        {tr("ResNet-50"), tr("batch 256 of 224 × 224 images, SGD, NVIDIA A100 40 GB"),
         words("demo:resnet --batch 256 --optimizer sgd --gpu a100-40gb --set depth=50"), QStringLiteral("resnet50")},
        {tr("MLP, 24 blocks of width 4096"), tr("batch 64 of 256 tokens, AdamW, NVIDIA A100 40 GB"),
         words("demo:mlp --batch 64 --seq 256 --optimizer adamw --gpu a100-40gb --set n_layers=24 --set dim=4096"),
         QStringLiteral("mlp")},
    };
}

} // namespace headroom
