// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The time model `kernel` beside what others published: kernel rates, profiler traces, step times.
//
//     bench_times [--constants FILE] [--rows] [--picture FILE.svg] [STEP_FOLDER TRAINING_THROUGHPUT.json]
//     bench_times --plans STEP.hrs ...
//
// STEP_FOLDER holds steps that record_published.py recorded. --constants: others than the program's, as a fit tries
// them. --rows: every figure, not only the means. --picture: the rates as curves over size. --plans: how much slower
// the plans are that the roofline chooses, when the kernel model tells the time.
#include "core/cost/step_times.h"
#include "core/policy/step_planner.h"
#include "core/predict/predict.h"
#include "core/predict/step_clock.h"
#include "core/trace/step_file.h"
#include "tests/bench/published_bench.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace headroom {
namespace {

DType dtypeOfKineto(const std::string& name)
{
    if (name == "float")
        return DType::float32;
    if (name == "double")
        return DType::float64;
    if (name == "long" || name == "long int")
        return DType::int64;
    if (name == "int")
        return DType::int32;
    if (name == "bool")
        return DType::boolean;
    if (name == "unsigned char")
        return DType::uint8;
    return name == "c10::Half" ? DType::float16 : DType::bfloat16;
}

bool isTensorType(const std::string& name)
{
    return name != "Scalar" && name != "ScalarList" && !name.empty() && name != "Int" && name != "Bool"
        && name != "Double" && name != "GenericList" && name != "TensorList";
}

std::vector<std::int64_t> sizesOf(const Json& dims)
{
    std::vector<std::int64_t> sizes;
    for (const Json& size : dims)
        if (size.is_number_integer())
            sizes.push_back(size.get<std::int64_t>());
    return sizes;
}

/// ResNet-50's (torchvision's, with the stride in the 3x3 filters) and patches': a trace does not name strides.
std::int64_t strideOf(const TensorShape& x, const TensorShape& weight)
{
    const std::int64_t filter = weight.sizes[2];
    if (filter >= 14)
        return filter;
    if (filter == 7 || (filter == 3 && x.sizes[1] * x.sizes[2] > 3584))
        return 2;
    return filter == 1 && x.sizes[1] >= 256 && weight.sizes[0] == 2 * x.sizes[1] ? 2 : 1;
}

/// The convolutions of old traces, which name cuDNN's functions: a stride follows from the sizes.
std::pair<std::string, OpSignature> oldConvolution(const std::string& op, const OpSignature& traced)
{
    OpSignature call;
    call.modes = convolutionTF32;
    const auto output = [&](const TensorShape& x, const TensorShape& weight, std::int64_t stride) {
        std::vector<std::int64_t> sizes{x.sizes[0], weight.sizes[0]};
        for (std::size_t i = 2; i < x.sizes.size(); ++i)
            sizes.push_back((x.sizes[i] + stride - 1) / stride);
        return tensor(sizes, x.dtype);
    };
    if (op == "aten::cudnn_convolution") {
        const TensorShape x = *traced.tensor(0);
        const TensorShape weight = *traced.tensor(1);
        const std::int64_t stride = strideOf(x, weight);
        call.arguments
            = {given(x),     given(weight),   {},          numbers({stride, stride}), numbers({0, 0}), numbers({1, 1}),
               numbers({0}), numbers({0, 0}), numbers({1})};
        call.results = {given(output(x, weight, stride))};
        return {"aten.convolution", call};
    }
    const bool isInput = op.ends_with("_input");
    // backward_input(size, grad_output, weight); backward_weight(size, grad_output, input)
    const TensorShape gradient = *traced.tensor(1);
    const TensorShape other = *traced.tensor(2);
    TensorShape x = gradient;
    TensorShape weight = other;
    if (isInput)
        x.sizes[1] = other.sizes[1];
    else {
        x = other;
        weight = tensor({gradient.sizes[1], other.sizes[1], 1, 1}, other.dtype);
    }
    call.arguments = {given(gradient),
                      given(x),
                      given(weight),
                      {},
                      numbers({1, 1}),
                      numbers({0, 0}),
                      numbers({1, 1}),
                      numbers({0}),
                      numbers({0, 0}),
                      numbers({1}),
                      numbers({isInput, !isInput, 0})};
    return {"aten.convolution_backward", call};
}

} // namespace

void Bench::trace(const fs::path& file) const
{
    const Json document = Json::parse(textOf(file));
    const DeviceSpec card = *findDeviceSpec(document.at("headroom_gpu").get<std::string>());
    std::map<std::string, std::pair<double, double>> classes;
    Errors all;
    double total = 0;
    double totalPublished = 0;
    for (const Json& row : document.at("rows")) {
        const std::string traced = row[1];
        const double calls = row[4];
        const double published = row[6].get<double>() / calls;
        if (!traced.starts_with("aten::"))
            continue;
        OpSignature call;
        call.modes = document.at("file") == "dlrm_a100" ? matmulTF32 | convolutionTF32 : convolutionTF32;
        for (std::size_t i = 0; i < row[2].size(); ++i) {
            const std::string type = row[3][i];
            if (type == "TensorList") {
                OpSignature::Value list{OpSignature::Value::ValueType::tensors, {}, {}};
                for (const Json& dims : row[2][i])
                    if (dims.is_array())
                        list.tensors.push_back(tensor(sizesOf(dims), DType::bfloat16));
                call.arguments.push_back(list);
            } else if (isTensorType(type)) {
                call.arguments.push_back(given(tensor(sizesOf(row[2][i]), dtypeOfKineto(type))));
            } else {
                call.arguments.emplace_back();
            }
        }
        std::string op = "aten." + traced.substr(6);
        const std::string kernel = row[7];
        if (kernel.starts_with("Memcpy") || kernel.starts_with("Memset") || traced == "aten::cat"
            || traced == "aten::max_pool2d_with_indices")
            continue; // not the model's, or the dimensions are not there
        if (traced.starts_with("aten::cudnn_convolution")) {
            // 3x3 filters' gradients do not name their filter: their time tells nothing without it.
            if (traced.ends_with("_weight"))
                continue;
            std::tie(op, call) = oldConvolution(traced, call);
        } else if (const TensorShape* const first = call.tensor(0)) {
            TensorShape out = *first;
            for (const auto& value : call.arguments)
                for (const TensorShape& other : value.tensors)
                    if (other.sizes.size() == out.sizes.size() && traced != "aten::index_select")
                        for (std::size_t i = 0; i < out.sizes.size(); ++i)
                            out.sizes[i] = std::max(out.sizes[i], other.sizes[i]);
            if (traced == "aten::addmm") {
                out = tensor({call.tensor(1)->sizes[0], call.tensor(2)->sizes[1]}, first->dtype);
            } else if (traced == "aten::bmm" || traced == "aten::mm") {
                out = *first;
                out.sizes.back() = call.tensor(1)->sizes.back();
                out = tensor(out.sizes, first->dtype);
            } else if (traced == "aten::index_select") {
                out = tensor({call.tensor(2)->sizes[0], first->sizes[1]}, first->dtype);
            } else if (traced == "aten::sum" || traced == "aten::mean") {
                out = tensor({first->sizes.size() > 1 ? first->sizes[1] : 1}, first->dtype);
            }
            call.results = {given(out)};
        }
        OpWork work = workOf(op, call, 0, 0);
        if (kernel.find("::elementwise_kernel<128") != std::string::npos)
            work.strided = true; // not the vectorized kernel
        const double predicted = 1e3 * model.ms(work, card);
        this->row(traced + " " + row[2].dump().substr(0, 44), predicted * calls, published * calls);
        all.add(predicted, published, published * calls);
        const bool isOptimizers = row[0] == "o";
        auto& [p, q] = classes[isOptimizers ? "optimizer" : std::string(workClassName(work.kind))];
        p += predicted * calls;
        q += published * calls;
        total += predicted * calls;
        totalPublished += published * calls;
    }
    all.print("trace " + document.at("file").get<std::string>() + ", by op, weighted");
    for (const auto& [name, times] : classes)
        if (times.second > 0.005 * totalPublished)
            std::printf("    %-40s %10.1f us, published %10.1f us, ratio %.2f\n", name.c_str(), times.first,
                        times.second, times.first / times.second);
    std::printf("    %-40s %10.1f us, published %10.1f us, ratio %.2f\n", "sum", total, totalPublished,
                total / totalPublished);
}

void Bench::steps(const fs::path& folder, const fs::path& throughput) const
{
    std::map<std::string, Errors> groups;
    for (const Json& figure : Json::parse(textOf(throughput))) {
        std::string name = figure.at("id");
        while (!name.empty() && name.back() == ' ')
            name.pop_back();
        std::ranges::replace_if(
            name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.' && c != '_'; }, '_');
        const auto step = readStepTrace(folder / (name + ".hrs"));
        if (!step)
            continue;
        const DeviceSpec card = *findDeviceSpec((*step)->info.gpu);
        std::map<std::string, double> classes;
        double ms = 0;
        std::vector<double> times;
        for (std::uint32_t i = 0; i < (*step)->ops.size(); ++i) {
            const OpId op(i);
            const OpWork work = workOf((*step)->opName(op), decodedSignature((*step)->signatureOf(op)),
                                       (*step)->ops.flags[op], (*step)->ops.flops[op]);
            const double time = model.ms(work, card);
            ms += time;
            times.push_back(time);
            std::string group(workClassName(work.kind));
            if (work.strided && (work.kind == WorkClass::pointwise || work.kind == WorkClass::copy))
                group += " strided";
            if (work.kind == WorkClass::convolution || work.kind == WorkClass::convolutionBackward)
                group += work.convolution.groups > 1 ? work.convolution.inputChannels <= 1 ? " depthwise" : " grouped"
                                                     : "";
            classes[group] += time;
        }
        const StepClock clock = *clockOf(*withOpTimes(*step, times, card.name, "kernel"), {});
        const double published = 1e3 * figure.at("step_time_s").get<double>();
        const std::string id = figure.at("id");
        groups[id.substr(0, id.find('-')) + " " + card.name].add(clock.stepMs, published);
        std::printf("  %-34s %-16s %9.2f ms (GPU %8.2f, CPU %7.2f), published %9.2f ms, ratio %.2f, %5.0f kernels",
                    id.c_str(), card.name.c_str(), clock.stepMs, ms, clock.cpuMs, published, clock.stepMs / published,
                    clock.kernels);
        if (rows) {
            std::vector<std::pair<double, std::string>> sorted;
            for (const auto& [workClass, time] : classes)
                sorted.emplace_back(time, workClass);
            std::ranges::sort(sorted, std::ranges::greater());
            for (std::size_t i = 0; i < std::min<std::size_t>(6, sorted.size()); ++i)
                std::printf(" %s %.0f%%", sorted[i].second.c_str(), 100 * sorted[i].first / ms);
        }
        std::printf("\n");
    }
    for (const auto& [name, errors] : groups)
        errors.print("steps " + name);
}

namespace {

/// Recompute time of the plan for a share of the peak that each model chooses, both by the kernel model's clock.
void plans(const std::vector<std::string>& files)
{
    std::printf("%-32s %8s %14s %14s %9s\n", "step", "budget", "by kernel", "by roofline", "slower");
    for (const std::string& file : files) {
        const auto step = readStepTrace(file);
        if (!step) {
            std::fprintf(stderr, "%s\n", step.error().message.c_str());
            continue;
        }
        const StepTracePtr kernel = withTimes(*step, {TimeModel::kernel, {}, "none"})->step;
        const StepTracePtr roofline = withTimes(*step, {TimeModel::roofline, {}, "none"})->step;
        const Bytes peak = predict(*kernel, {})->peak;
        for (const double share : {0.6, 0.8}) {
            PlanRequest request;
            request.budget = static_cast<Bytes>(share * static_cast<double>(peak));
            const auto planned = [&](const StepTracePtr& timed) { return StepPlanner::create(timed)->solve(request); };
            const auto best = planned(kernel);
            const auto other = planned(roofline);
            if (!best || !other || best->plan.status == PlanStatus::infeasible) {
                std::printf("%-32s %7.0f%% %14s\n", fs::path(file).stem().c_str(), 100 * share, "no plan");
                continue;
            }
            const double ms = predict(*kernel, best->regions)->recomputeMs;
            const double otherMs = predict(*kernel, other->regions)->recomputeMs;
            std::printf("%-32s %7.0f%% %11.2f ms %11.2f ms %8.1f%%\n", fs::path(file).stem().c_str(), 100 * share, ms,
                        otherMs, ms > 0 ? 100 * (otherMs / ms - 1) : 0);
        }
    }
}

} // namespace
} // namespace headroom

int main(int argc, char** argv)
{
    using namespace headroom;
    std::vector<std::string> rest;
    KernelModel model = KernelModel::standard();
    bool rows = false;
    fs::path picture;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (argument == "--rows") {
            rows = true;
        } else if (argument == "--picture" && i + 1 < argc) {
            picture = argv[++i];
        } else if (argument == "--constants" && i + 1 < argc) {
            const auto read = KernelModel::fromJson(textOf(argv[i + 1]), argv[i + 1]);
            if (!read) {
                std::fprintf(stderr, "%s\n", read.error().message.c_str());
                return 1;
            }
            model = *read;
            ++i;
        } else {
            rest.push_back(argument);
        }
    }
    if (!rest.empty() && rest.front() == "--plans") {
        plans({rest.begin() + 1, rest.end()});
        return 0;
    }
    const Bench bench{model, rows};
    const fs::path published = fs::path(HEADROOM_SOURCE_DIR) / "tests" / "data" / "published";
    bench.rates(published / "kernel_rates.json", picture);
    for (const char* const name :
         {"resnet50_v100_nw0_a", "owlv2_large_h100_forward", "vit_base_h100_forward", "dlrm_a100"})
        bench.trace(published / "traces" / (std::string(name) + ".json"));
    if (rest.size() == 2)
        bench.steps(rest[0], rest[1]);
    return 0;
}
