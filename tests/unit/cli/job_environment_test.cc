// What of a shell's environment goes to a cluster with a job.
#include <doctest/doctest.h>

#include "cli/commands/cluster/submit.h"

namespace elastictrain::cli {
namespace {

using Variables = std::vector<std::string>;

const Variables kShell{"PATH=/bin",
                       "LC_ALL=C",
                       "CUDA_VISIBLE_DEVICES=0",
                       "HF_HOME=/hf",
                       "HF_TOKEN=hf_1",
                       "AWS_SECRET_KEY=a",
                       "MY_RATE=3",
                       "MY_TOKEN=t",
                       "db_password=p",
                       "ELASTICTRAIN_BATCH_PER_WORKER=8",
                       "ELASTICTRAIN_SECRET=sixteen-letters-",
                       "ELASTICTRAIN_JOB=j1",
                       "ELASTICTRAIN_CLUSTER=/c/",
                       "TOKENIZERS_PARALLELISM=false"};

TEST_CASE("a job gets what finds and sets up programs, and nothing else") {
  CHECK(job_environment({}, kShell) == Variables{"PATH=/bin", "LC_ALL=C", "CUDA_VISIBLE_DEVICES=0", "HF_HOME=/hf",
                                                 "ELASTICTRAIN_BATCH_PER_WORKER=8", "TOKENIZERS_PARALLELISM=false"});
}

TEST_CASE("what a job names comes along, a secret only by its whole name, and that of an endpoint never") {
  EnvironmentConfig asked;
  asked.pass = {"MY_*", "AWS_SECRET_KEY", "ELASTICTRAIN_SECRET"};
  const Variables got = job_environment(asked, kShell);
  const auto has = [&](const char* one) { return std::find(got.begin(), got.end(), one) != got.end(); };
  CHECK(has("MY_RATE=3"));
  CHECK(has("AWS_SECRET_KEY=a"));
  CHECK_FALSE(has("MY_TOKEN=t"));
  CHECK_FALSE(has("ELASTICTRAIN_SECRET=sixteen-letters-"));
  CHECK(got.size() == 8);
}

}  // namespace
}  // namespace elastictrain::cli
