// C++'s libraries as contenders of `clmoe bench`.
//
//     clmoe bench --peer 'clmoe-peers std' --peer 'clmoe-peers boost [DEVICE]'
//
// std: the standard library, on the host. boost: Boost.Compute on an OpenCL device; DEVICE is a part of its name. Sorts work in place, so
// a call copies the input first. The lines that are spoken here are those of src/cli/bench.h.
#define CL_TARGET_OPENCL_VERSION 120
#include <boost/compute/algorithm/copy.hpp>
#include <boost/compute/algorithm/exclusive_scan.hpp>
#include <boost/compute/algorithm/sort.hpp>
#include <boost/compute/algorithm/stable_sort_by_key.hpp>
#include <boost/compute/container/vector.hpp>
#include <boost/compute/system.hpp>
#include <boost/version.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using words = std::vector<std::uint32_t>;

struct problem {
    std::string op, directory;
    std::size_t num_sets = 0;
};

class peer {
  public:
    virtual ~peer() = default;
    virtual std::string name() const = 0;
    virtual std::string version() const = 0;
    virtual std::string device() const = 0;
    virtual std::string refusal(const std::string &op) const = 0; // "" if it has none
    virtual void put(std::size_t num_sets) = 0;                   // room for that many sets
    virtual void put(std::size_t set, const std::vector<words> &inputs) = 0;
    virtual void call(const std::string &op, std::size_t set) = 0;
    virtual void finish() = 0;
    virtual std::vector<words> get(const std::string &op) = 0; // of the last call
};

class standard_peer : public peer {
    std::vector<std::vector<words>> sets_;
    std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> pairs_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> sorted_;
    words output_;

  public:
    std::string name() const override {
        return "std";
    }
    std::string version() const override {
        return __VERSION__;
    }
    std::string device() const override {
        return "host";
    }
    std::string refusal(const std::string &) const override {
        return "";
    }
    void put(std::size_t num_sets) override {
        sets_.assign(num_sets, {});
        pairs_.assign(num_sets, {});
    }
    void put(std::size_t set, const std::vector<words> &inputs) override {
        sets_[set] = inputs;
        if (inputs.size() == 2) { // what a user of std::stable_sort has
            for (std::size_t i = 0; i < inputs[0].size(); i++) {
                pairs_[set].emplace_back(inputs[0][i], inputs[1][i]);
            }
        }
    }
    void call(const std::string &op, std::size_t set) override {
        if (op == "scan") {
            output_.resize(sets_[set][0].size());
            std::exclusive_scan(sets_[set][0].begin(), sets_[set][0].end(), output_.begin(), std::uint32_t{0});
        } else if (op == "sort_keys") {
            output_ = sets_[set][0];
            std::stable_sort(output_.begin(), output_.end());
        } else {
            sorted_ = pairs_[set];
            std::stable_sort(sorted_.begin(), sorted_.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
        }
    }
    void finish() override {
    }
    std::vector<words> get(const std::string &op) override {
        if (op != "sort_pairs") {
            return {output_};
        }
        words keys, values;
        for (const auto &pair : sorted_) {
            keys.push_back(pair.first);
            values.push_back(pair.second);
        }
        return {keys, values};
    }
};

namespace compute = boost::compute;

class boost_peer : public peer {
    using device_words = compute::vector<std::uint32_t>;
    compute::device device_;
    compute::context context_;
    compute::command_queue queue_;
    std::vector<std::vector<device_words>> sets_;
    std::vector<device_words> outputs_;

    static compute::device find(const std::string &part) {
        for (const auto &device : compute::system::devices()) {
            if (device.name().find(part) != std::string::npos) {
                return device;
            }
        }
        throw std::runtime_error("no OpenCL device has '" + part + "' in its name");
    }

  public:
    explicit boost_peer(const std::string &part) : device_(find(part)), context_(device_), queue_(context_, device_) {
    }
    std::string name() const override {
        return "Boost.Compute";
    }
    std::string version() const override {
        return BOOST_LIB_VERSION;
    }
    std::string device() const override {
        return device_.name();
    }
    std::string refusal(const std::string &op) const override {
        // As of 1.74: each of that many work-items and one more gets a part, but with one nobody does the second part.
        return op == "scan" && device_.compute_units() < 2 ? "its scan is wrong on a device with one compute unit" : "";
    }
    void put(std::size_t num_sets) override {
        sets_.clear();
        sets_.resize(num_sets);
        outputs_.clear();
    }
    void put(std::size_t set, const std::vector<words> &inputs) override {
        for (const auto &input : inputs) {
            sets_[set].emplace_back(input.begin(), input.end(), queue_);
            if (outputs_.size() < inputs.size()) {
                outputs_.emplace_back(input.size(), context_);
            }
        }
    }
    void call(const std::string &op, std::size_t set) override {
        auto &inputs = sets_[set];
        if (op == "scan") {
            compute::exclusive_scan(inputs[0].begin(), inputs[0].end(), outputs_[0].begin(), std::uint32_t{0}, queue_);
            return;
        }
        for (std::size_t i = 0; i < inputs.size(); i++) {
            compute::copy(inputs[i].begin(), inputs[i].end(), outputs_[i].begin(), queue_);
        }
        if (op == "sort_keys") {
            compute::sort(outputs_[0].begin(), outputs_[0].end(), queue_);
        } else {
            compute::stable_sort_by_key(outputs_[0].begin(), outputs_[0].end(), outputs_[1].begin(), queue_);
        }
    }
    void finish() override {
        queue_.finish();
    }
    std::vector<words> get(const std::string &) override {
        std::vector<words> outputs;
        for (auto &output : outputs_) {
            outputs.emplace_back(output.size());
            compute::copy(output.begin(), output.end(), outputs.back().begin(), queue_);
        }
        return outputs;
    }
};

words read(const std::string &path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    words data(file ? static_cast<std::size_t>(file.tellg()) / sizeof(std::uint32_t) : 0);
    file.seekg(0);
    if (!file.read(reinterpret_cast<char *>(data.data()), static_cast<std::streamsize>(data.size() * sizeof data[0]))) {
        throw std::runtime_error("can't read " + path);
    }
    return data;
}

void write(const std::string &path, const words &data) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char *>(data.data()), static_cast<std::streamsize>(data.size() * sizeof data[0]));
}

// Returns the answer.
std::string pose(peer &who, std::istringstream &rest, problem &p) {
    rest >> p.op;
    for (std::string pair; rest >> pair;) {
        if (pair.compare(0, 9, "num_sets=") == 0) {
            p.num_sets = std::stoul(pair.substr(9));
        }
    }
    const std::string refusal = who.refusal(p.op);
    if (!refusal.empty()) {
        return "no " + refusal;
    }
    who.put(p.num_sets);
    for (std::size_t set = 0; set < p.num_sets; set++) {
        std::vector<words> inputs;
        for (int i = 0; i < (p.op == "sort_pairs" ? 2 : 1); i++) {
            inputs.push_back(read(p.directory + "/input." + std::to_string(set) + "." + std::to_string(i)));
        }
        who.put(set, inputs);
    }
    return "ready";
}

void serve(peer &who) {
    std::cout << "clmoe-peer 1\nname " << who.name() << "\nversion " << who.version() << "\ndevice " << who.device()
              << "\noperators scan sort_keys sort_pairs" << std::endl;
    problem p;
    for (std::string line; std::getline(std::cin, line);) {
        const std::string key = " directory=";
        const std::size_t at = line.find(key); // ends with the line
        std::istringstream rest(line.substr(0, at));
        std::string word;
        std::size_t set = 0, num_calls = 0;
        rest >> word;
        if (word == "pose") {
            p.directory = at == std::string::npos ? "" : line.substr(at + key.size());
            std::cout << pose(who, rest, p) << std::endl;
        } else if (word == "time") {
            rest >> set >> num_calls;
            const auto start = std::chrono::steady_clock::now();
            for (std::size_t i = 0; i < num_calls; i++) {
                who.call(p.op, (set + i) % p.num_sets);
            }
            who.finish();
            std::cout << "us " << std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() << std::endl;
        } else if (word == "solve") {
            rest >> set;
            who.call(p.op, set);
            const auto outputs = who.get(p.op);
            for (std::size_t i = 0; i < outputs.size(); i++) {
                write(p.directory + "/output.0." + std::to_string(i), outputs[i]);
            }
            std::cout << "done" << std::endl;
        } else {
            std::cout << "error: '" << word << "' is no question" << std::endl;
        }
    }
}

} // namespace

int main(int argc, char **argv) {
    const std::string which = argc > 1 ? argv[1] : "", part = argc > 2 ? argv[2] : "";
    try {
        if (which != "std" && which != "boost") {
            throw std::runtime_error("usage: clmoe-peers std|boost [DEVICE]");
        }
        std::unique_ptr<peer> who;
        if (which == "std") {
            who = std::make_unique<standard_peer>();
        } else {
            who = std::make_unique<boost_peer>(part);
        }
        serve(*who);
    } catch (const std::exception &error) { // the bench shows the line
        std::cout << "error: " << error.what() << std::endl;
        return 1;
    }
    return 0;
}
