#include "cli/commands/job_environment.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/commands/run_plan.h"

namespace elastictrain::cli {
namespace {

constexpr std::size_t kMaxVariableBytes = 64u << 10;

// A trailing * matches any suffix.
constexpr std::array<std::string_view, 39> kUsual{
    "PATH",    "HOME",    "USER",   "LOGNAME",       "SHELL",          "LANG",         "LANGUAGE",      "LC_*",
    "TZ",      "TMPDIR",  "TERM",   "SSH_AUTH_SOCK", "KUBECONFIG",     "XDG_*",        "PYTHON*",       "VIRTUAL_ENV",
    "CONDA_*", "MAMBA_*", "LD_*",   "CUDA_*",        "NVIDIA_*",       "NCCL_*",       "GLOO_*",        "OMP_*",
    "GOMP_*",  "KMP_*",   "MKL_*",  "OPENBLAS_*",    "UCX_*",          "FI_*",         "OMPI_*",        "MPICH_*",
    "I_MPI_*", "HF_*",    "TORCH*", "PYTORCH_*",     "TRANSFORMERS_*", "TOKENIZERS_*", "ELASTICTRAIN_*"};
constexpr std::array<std::string_view, 5> kSecretWords{"SECRET", "TOKEN", "PASSW", "KEY", "CREDENTIAL"};
// The shell's own, and the secret of an endpoint.
constexpr std::array<std::string_view, 3> kNever{"ELASTICTRAIN_SECRET", "ELASTICTRAIN_CLUSTER", "ELASTICTRAIN_JOB"};

bool is_usual(std::string_view name) {
  return std::any_of(kUsual.begin(), kUsual.end(), [name](std::string_view pattern) {
    return pattern.back() == '*' ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
  });
}

bool sounds_secret(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return name.find("TOKENIZERS_") != 0 && std::any_of(kSecretWords.begin(), kSecretWords.end(),
                                                      [&](auto word) { return name.find(word) != std::string::npos; });
}

bool comes_along(const EnvironmentConfig& asked, const std::string& name) {
  if (std::find(kNever.begin(), kNever.end(), name) != kNever.end()) return false;
  if (std::find(asked.pass.begin(), asked.pass.end(), name) != asked.pass.end()) return true;
  const bool is_ours = name.starts_with("ELASTICTRAIN_");  // a path of a secret is none
  return is_ours || (!sounds_secret(name) && (is_usual(name) || is_passed(asked, name)));
}

}  // namespace

std::vector<std::string> job_environment(const EnvironmentConfig& asked, const std::vector<std::string>& ours) {
  std::vector<std::string> variables;
  for (const std::string& one : ours) {
    if (one.size() < kMaxVariableBytes && comes_along(asked, one.substr(0, one.find('=')))) variables.push_back(one);
  }
  return variables;
}

}  // namespace elastictrain::cli
