// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/time_model.h"

#include "core/cost/kernel_constants.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace headroom {
namespace {

using Constants = KernelConstants;

/// The arithmetic of a product; the arithmetic decides peak and share.
enum class Math { float32, tensorFloat32, half, float8, float64 };

Math mathOf(const OpWork& work, bool tensorFloat32, const DeviceSpec& device)
{
    switch (work.dtype) {
    case DType::float16:
        return Math::half;
    case DType::bfloat16: // no tensor cores for this type before Ampere
        return device.computeCapability >= 80 ? Math::half : Math::float32;
    case DType::float8:
    case DType::int8:
        return device.computeCapability >= 89 ? Math::float8 : Math::half;
    case DType::float64:
    case DType::complex128:
        return Math::float64;
    default:
        return tensorFloat32 && device.computeCapability >= 80 ? Math::tensorFloat32 : Math::float32;
    }
}

std::string_view mathName(Math math)
{
    constexpr auto names = std::to_array<std::string_view>({"float32", "tensor_float32", "half", "float8", "float64"});
    return names[static_cast<std::size_t>(math)];
}

double peakOf(Math math, const DeviceSpec& device)
{
    switch (math) {
    case Math::half:
        return device.halfFlops;
    case Math::tensorFloat32:
        return device.tensorFloat32Flops;
    case Math::float8:
        return device.float8Flops;
    case Math::float64:
        return device.float64Flops;
    case Math::float32:
        break;
    }
    return device.float32Flops;
}

/// The formulas for an op on a GPU; times in microseconds.
class Formulas
{
public:
    Formulas(const Constants& constants, const OpWork& work, const DeviceSpec& device)
        : c_(constants)
        , work_(work)
        , device_(device)
    {
    }

    double us() const
    {
        const double start = c_.start(device_) * std::max(1.0, work_.kernels);
        switch (work_.kind) {
        case WorkClass::none:
            return 0;
        case WorkClass::transfer:
            return start + work_.written / (c_.pcie(work_, device_) * 1e3);
        case WorkClass::matmul:
            return start + c_.matmulExtraUs
                + product(work_.product, mathOf(work_, work_.modes & matmulTF32, device_), 1, bytes());
        case WorkClass::convolution:
        case WorkClass::convolutionBackward:
            return convolution(c_.start(device_));
        case WorkClass::attention:
        case WorkClass::attentionBackward:
            return start + c_.extra(workClassName(work_.kind)) + attention();
        case WorkClass::opaque: {
            const Math math = mathOf(work_, true, device_);
            return start
                + std::max(moved(bytes(), c_.share("opaque")),
                           work_.flops / peakOf(math, device_) / c_.opaquePeak * 1e6);
        }
        default:
            return start + c_.extra(workClassName(work_.kind)) + moved(traffic(), share());
        }
    }

private:
    double bytes() const { return work_.read + work_.written; }

    /// Microseconds to move bytes at a share of the card's bandwidth. Bytes that fit into the L2 cache are faster,
    /// since the op before has just written the elements.
    double moved(double bytes, double share) const
    {
        const double cache = static_cast<double>(device_.l2);
        const bool passesOnce = !work_.strided
            && (work_.kind == WorkClass::pointwise || work_.kind == WorkClass::copy || work_.kind == WorkClass::fill);
        const double gain = !passesOnce ? 1
            : bytes <= cache / 2        ? c_.l2Gain
            : bytes >= 1.25 * cache     ? 1
                                        : c_.l2Gain + (1 - c_.l2Gain) * std::log(2 * bytes / cache) / std::log(2.5);
        return bytes / (device_.gigabytesPerSecond * 1e3 * share * gain);
    }

    /// The bytes moved: a repeated operand that is larger than the L2 cache is read again each time.
    double traffic() const
    {
        const bool isCached = work_.repeated <= static_cast<double>(device_.l2);
        return bytes() + (isCached ? 0 : work_.repeated * (work_.repeats - 1));
    }

    double share() const
    {
        switch (work_.kind) {
        case WorkClass::pointwise:
            return work_.strided ? stridedShare() : c_.share("pointwise");
        case WorkClass::copy:
            return work_.strided ? stridedShare() : c_.share("copy");
        case WorkClass::reduction:
            return c_.share(work_.innermost ? "reduction" : "outer_reduction");
        case WorkClass::softmax:
        case WorkClass::softmaxBackward:
            return softmaxShare();
        case WorkClass::batchNorm:
            return channelShare()
                * c_.share(work_.halfWeights     ? "batch_norm_half_weights"
                               : work_.innermost ? "batch_norm"
                                                 : "batch_norm_channels_last");
        case WorkClass::batchNormBackward:
            return channelShare()
                * c_.share(work_.halfWeights     ? "batch_norm_half_weights_backward"
                               : work_.innermost ? "batch_norm_backward"
                                                 : "batch_norm_channels_last_backward");
        default:
            return c_.share(workClassName(work_.kind));
        }
    }

    /// A block takes a channel if its elements are adjacent in memory: few channels leave multiprocessors idle.
    double channelShare() const { return work_.innermost ? std::min(1.0, work_.rows / device_.multiprocessors) : 1; }

    /// Elements are loaded singly: wider elements use the bus better.
    double stridedShare() const { return c_.share(itemSize() >= 4 ? "strided" : "strided_narrow"); }

    double itemSize() const
    {
        switch (work_.dtype) {
        case DType::float32:
        case DType::int32:
            return 4;
        case DType::float64:
        case DType::int64:
            return 8;
        default:
            return 2;
        }
    }

    /// Up to 1024 columns a warp holds a row (PersistentSoftmax.cuh). Beyond, a block passes over it three times, as
    /// many elements at once as it has threads times what a thread loads (SoftMax_getBlockSize in SoftMax.cu): the last
    /// pass over a row is partly idle, and rows that do not start at 16 bytes are loaded element by element.
    double softmaxShare() const
    {
        const bool backward = work_.kind == WorkClass::softmaxBackward;
        const double full = c_.share(backward ? "softmax_backward" : "softmax");
        if (!work_.innermost)
            return c_.share("softmax_outer");
        if (work_.columns <= 1024)
            return full;
        if (std::fmod(work_.columns * itemSize(), 16) != 0)
            return c_.share("softmax_unaligned");
        const double together = 16 / itemSize();
        const double most = std::min(work_.columns / together, 1024.0);
        double threads = 1;
        while (threads < most / 2)
            threads *= 2;
        const double pass = std::max(threads, 32.0) * together;
        return full * work_.columns / (std::ceil(work_.columns / pass) * pass);
    }

    /// A matrix product is cut into tiles, one a multiprocessor at a time. Libraries choose among tiles: the fastest
    /// counts. A small tile loads more for each product (the intensity), a large tile leaves multiprocessors idle.
    /// Batched products in float32 take large tiles on some cards, however few rows or columns a matrix has.
    double product(const MatrixProduct& p, Math math, double factor, double bytes, bool splits = true) const
    {
        constexpr std::pair<double, double> tiles[]{{256, 128}, {128, 256}, {128, 128}, {256, 64}, {64, 256}, {128, 64},
                                                    {64, 128},  {64, 64},   {64, 32},   {32, 64},  {32, 32}};
        if (p.flops() <= 0)
            return moved(bytes, c_.share("matmul"));
        const bool isConvolution = work_.kind != WorkClass::matmul;
        const bool isFloat32 = math == Math::float32 && !isConvolution;
        const Constants::Float32Tiling& float32 = c_.float32Tiling(device_);
        const Constants::Tiling& tiling = isFloat32 ? float32 : c_.tiling;
        const double share = (isFloat32 ? float32.share : c_.matmulShare(mathName(math), device_)) * factor
            * (math == Math::float32 || math == Math::float64 ? 1 : alignmentFactor(p.alignment));
        const double rate = peakOf(math, device_) / device_.multiprocessors * share / 1e6; // flops a microsecond
        const double sustained = device_.float32Flops * device_.sustainedFloat32 / 1e6; // the same of the whole card
        const double fullIntensity = !isFloat32 && (math == Math::float32 || math == Math::float64)
            ? tiling.fullIntensity / 2
            : tiling.fullIntensity;
        const double leastTile = isConvolution ? c_.leastTile : 0;
        const double leastSide = isFloat32 && p.batch > 1 ? float32.batchedSide : 0;
        double best = std::numeric_limits<double>::infinity();
        for (const auto& [m, n] : tiles) {
            if (m * n < leastTile || std::min(m, n) < leastSide)
                continue;
            const double intensity = std::min(1.0, m * n / (m + n) / fullIntensity);
            const double tileRate = rate * std::pow(intensity, tiling.intensityPower);
            for (double split = 1; split <= 32; split *= 2) {
                if (split > 1 && (p.k / split < tiling.leastSplit || !splits))
                    break;
                const double work = p.batch * std::ceil(p.m / m) * std::ceil(p.n / n) * split;
                const double exact = work / device_.multiprocessors;
                const double waves = exact <= 1 ? 1 : exact + tiling.waveShare * (std::ceil(exact) - exact);
                double us = std::max(2 * m * n * (waves * (p.k / split + tiling.epilogue) + tiling.prologue) / tileRate,
                                     waves * p.k / split * c_.stepUs);
                if (math == Math::float32) // a small power limit bounds multiplications under any tiling
                    us = std::max(us, 2 * m * n * (work / split) * p.k / sustained);
                if (split > 1) // partial sums are written and added
                    us += c_.start(device_) / 2 + moved((split + 1) * p.batch * p.m * p.n * 4, 1);
                best = std::min(best, us);
            }
        }
        const double memory = moved(bytes, c_.share("matmul") * std::sqrt(alignmentFactor(p.alignment)));
        if (work_.kind != WorkClass::matmul)
            return std::max(best, memory);
        // Operands are loaded while others are multiplied; a complete tile of results is written at once.
        const double write = moved(work_.written, c_.share("matmul"));
        return std::max(best, memory) + tiling.exposedWrite * std::min(best, write);
    }

    /// Tensor cores load 16 bytes at once; rows that start elsewhere take kernels of other tiles.
    double alignmentFactor(int alignment) const
    {
        const double worst = c_.unaligned(device_);
        return alignment >= 16 ? 1 : std::pow(worst, alignment >= 8 ? 0.5 : alignment >= 4 ? 0.75 : 1.0);
    }

    double convolution(double start) const
    {
        const ConvolutionWork& c = work_.convolution;
        const bool backward = work_.kind == WorkClass::convolutionBackward;
        if (c.groups > 1 && c.inputChannels <= 1) {
            // The kernels multiply outside of tensor cores: multiprocessors are the limit, not memory.
            const double gigabytes = backward ? c_.depthwiseBackwardGigabytes : c_.depthwiseGigabytes;
            const double parts = backward ? (c.gradInput ? 1 : 0) + (c.gradWeight ? 1 : 0) : 1;
            const double bytes = c.inputBytes + c.outputBytes + c.weightBytes;
            return parts
                * (start
                   + std::max(bytes / (gigabytes * device_.multiprocessors * 1e3),
                              moved(bytes, c_.share("pointwise"))));
        }
        double us = 0;
        if (!backward)
            return start + one(c.outputPoints, c.outputChannels, c.inputChannels * c.kernelPoints, "forward")
                + (c.bias ? start + moved(2 * c.outputBytes, c_.share("pointwise")) : 0);
        if (c.gradInput)
            us += start + one(c.outputPoints, c.inputChannels * c.kernelPoints, c.outputChannels, "grad_input");
        if (c.gradWeight)
            us += start + one(c.outputChannels, c.inputChannels * c.kernelPoints, c.outputPoints, "grad_weight");
        if (c.gradBias)
            us += start + moved(c.outputBytes, c_.share("outer_reduction"));
        return us;
    }

    /// A product of a convolution's three (forward, two of backward), by the faster of cuDNN's kernels. Those of
    /// tensor cores read channels last: other images are copied into that layout, and results back.
    double one(double m, double n, double k, std::string_view which) const
    {
        const ConvolutionWork& c = work_.convolution;
        const MatrixProduct p{c.groups, m, n, k, std::fmod(c.inputChannels, 4) == 0 ? 16 : 8};
        const Math math = convolutionMath();
        // cuDNN's kernels for channels last take groups by the warp; other numbers of groups run in a general kernel.
        if (math == Math::half && c.groups > 1 && std::fmod(c.groups, 32) != 0)
            return p.flops() / (device_.float32Flops * c_.anyGroups) * 1e6;
        const double us = convolutionKernel(p, math, which);
        if (c.channelsLast || math == Math::float32 || math == Math::float64)
            return us;
        double copies = c_.copiesUs(mathName(math));
        for (const double bytes : {c.inputBytes, c.outputBytes, c.weightBytes})
            copies += c_.start(device_) + c_.gapUs + moved(2 * bytes, c_.layoutShare);
        return std::min(us + copies, convolutionKernel(p, Math::float32, which));
    }

    double convolutionKernel(const MatrixProduct& p, Math math, std::string_view which) const
    {
        const ConvolutionWork& c = work_.convolution;
        double factor = c_.convolutionFactor(which, mathName(math));
        const bool isThree = c.kernelPoints == 9 && c.inputChannels >= 16 && c.outputPoints * 2 > c.inputPoints;
        if (math == Math::float32 && isThree)
            factor *= c_.winograd;
        if (c.groups > 1)
            factor *= c_.grouped;
        if (math == Math::half)
            factor *= c_.convolutionInstructions(device_);
        return product(p, math, factor, c.inputBytes + c.outputBytes + c.weightBytes, which == "grad_weight");
    }

    /// cuDNN's grouped kernels for half precision take tensor cores where channels are last, else none.
    Math convolutionMath() const
    {
        const ConvolutionWork& c = work_.convolution;
        const Math math = mathOf(work_, work_.modes & convolutionTF32, device_);
        return math == Math::half && c.groups > 1 && !c.channelsLast ? Math::float32 : math;
    }

    /// FlashAttention: a block takes some rows of the query and goes over blocks of keys. Its other work counts as
    /// `block_overhead` more blocks. A causal mask leaves blocks out, except blocks on the diagonal.
    double attention() const
    {
        const AttentionWork& a = work_.attention;
        const bool backward = work_.kind == WorkClass::attentionBackward;
        const Constants::Attention& constants = c_.attention;
        const std::string_view phase = backward ? "backward" : "forward";
        const Math math = mathOf(work_, true, device_); // the kernels multiply float32 on tensor cores
        double share = constants.share(a.kernel, phase, a.width, device_);
        if (math == Math::float32 || math == Math::tensorFloat32)
            share *= constants.float32;
        const double blocks = std::max(1.0, a.key / constants.block);
        const double visited = a.causal ? std::max(1.0, blocks - a.query / constants.block / 2 + 0.5) : blocks;
        const double overhead = constants.blockOverhead(phase);
        if (a.causal)
            share *= constants.causalShare(phase);
        const double flops
            = 2 * a.batchHeads * a.query * constants.block * (visited + overhead) * a.width * (backward ? 5 : 2);
        const double tiles = a.batchHeads * std::ceil(a.query / constants.block) / device_.multiprocessors;
        const double idle = tiles < 1 ? 1 / tiles : 1;
        return std::max(flops / (peakOf(math, device_) * share) * 1e6 * idle, moved(bytes(), c_.share("pointwise")));
    }

    const Constants& c_;
    const OpWork& work_;
    const DeviceSpec& device_;
};

} // namespace

KernelModel::KernelModel(std::shared_ptr<const KernelConstants> constants)
    : constants_(std::move(constants))
{
}

Result<KernelModel> KernelModel::fromJson(std::string_view text, const std::string& file)
{
    auto constants = kernelConstantsFromJson(text, file);
    if (!constants)
        return constants.error();
    return KernelModel(std::make_shared<const KernelConstants>(*std::move(constants)));
}

const KernelModel& KernelModel::standard()
{
    static const KernelModel model(std::make_shared<const KernelConstants>(KernelConstants::standard()));
    return model;
}

double KernelModel::ms(const OpWork& work, const DeviceSpec& device) const
{
    const double us = Formulas(*constants_, work, device).us();
    return us > 0 && std::isfinite(us) ? us / 1e3 : 0; // sizes of a damaged file make no sense
}

std::string_view timeModelName(TimeModel model)
{
    return model == TimeModel::kernel ? "kernel" : "roofline";
}

std::string timesOf(const StepInfo& info)
{
    if (info.measured && info.measured->kernels > 0)
        return "measured";
    return info.times.empty() ? "roofline" : info.times;
}

std::string timesTitle(const StepInfo& info)
{
    const std::string times = timesOf(info);
    if (times == "measured")
        return "measured on the card";
    if (times == "calibration")
        return "the time model's, corrected by what was measured on " + info.gpu;
    return "of the time model `" + times + "` on " + info.gpu;
}

std::vector<double> opTimes(const StepTrace& trace, const DeviceSpec& device, TimeModel model)
{
    const StepTrace::Ops& ops = trace.ops;
    std::vector<double> times;
    times.reserve(ops.size());
    // Ops of the same name and shapes take the same time.
    std::map<std::tuple<StringId, SignatureId, std::uint16_t, double>, double> known;
    for (std::uint32_t row = 0; row < ops.size(); ++row) {
        const OpId op(row);
        if (model == TimeModel::roofline || trace.signatureOf(op).empty()) {
            times.push_back(rooflineMs(device, ops.bytes[op], ops.flops[op], ops.dtype[op], ops.flags[op]));
            continue;
        }
        const auto [entry, isNew] = known.try_emplace({ops.name[op], ops.signature[op], ops.flags[op], ops.flops[op]});
        if (isNew)
            entry->second = KernelModel::standard().ms(workOf(trace, op), device);
        times.push_back(entry->second);
    }
    return times;
}

OpWork workOf(const StepTrace& trace, OpId op)
{
    return workOf(trace.opName(op), decodedSignature(trace.signatureOf(op)), trace.ops.flags[op], trace.ops.flops[op]);
}

StepTracePtr withOpTimes(const StepTracePtr& step, std::vector<double> ms, const std::string& gpu,
                         std::string_view times)
{
    struct Columns
    {
        std::vector<double> ms;
        StepTracePtr step; ///< owns the other columns
    };
    auto columns = std::make_shared<Columns>(Columns{std::move(ms), step});
    auto result = std::make_shared<StepTrace>(*step);
    result->info.gpu = gpu;
    result->info.times = times;
    result->ops.ms.rows = columns->ms;
    result->memory = std::move(columns);
    return result;
}

} // namespace headroom
