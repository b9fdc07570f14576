// The C API over sums that a program makes elsewhere.
#include <cstddef>
#include <cstring>
#include <functional>

#include "elastictrain/elastictrain.h"
#include "elastictrain/session.hpp"
#include "train/c_api/guard.h"
#include "train/c_api/memory_access.h"

struct et_exchange {
  const elastictrain::SumElsewhere* sum = nullptr;  // null: the sums end
  const std::function<bool()>& is_broken;
};

namespace elastictrain::c_api {
namespace {

et_sum_elsewhere to_c(const SumElsewhere& sum, et_exchange& exchange) {
  et_sum_elsewhere out{};
  out.size = sizeof out;
  out.step = sum.step;
  out.generation = sum.generation;
  out.bucket = sum.bucket;
  out.rank = sum.rank;
  out.world_size = sum.world_size;
  out.encryption = sum.encryption;
  std::memcpy(out.token, sum.token.data(), sizeof out.token);
  out.scale = sum.scale;
  out.has_input = sum.has_input ? 1 : 0;
  out.keeps = sum.keeps ? 1 : 0;
  out.is_kept = sum.is_kept ? 1 : 0;
  out.wants_norms = sum.wants_norms ? 1 : 0;
  out.exchange = &exchange;
  return out;
}

StartElsewhere start_of(et_session* session, et_start_elsewhere start, void* user_data) {
  return [=](const SumElsewhere& sum) {
    const Calling calling(session);
    et_exchange exchange{&sum, sum.is_broken};
    const auto out = to_c(sum, exchange);
    return done_or_why([&](char* problem, std::size_t room) { return start(&out, problem, room, user_data); },
                       "the program could not start a sum elsewhere");
  };
}

FinishElsewhere finish_of(et_session* session, et_finish_elsewhere finish, void* user_data) {
  return [=](SumsElsewhere& sums) {
    const Calling calling(session);
    et_exchange exchange{nullptr, sums.is_broken};
    et_sums_elsewhere out{sizeof out, sums.failed ? 1U : 0U, 0, 0, 0, &exchange};
    auto why = done_or_why([&](char* problem, std::size_t room) { return finish(&out, problem, room, user_data); },
                           "the program's sums elsewhere have failed");
    sums.local_square_sum = out.local_square_sum;
    sums.reduced_square_sum = out.reduced_square_sum;
    return why;
  };
}

}  // namespace
}  // namespace elastictrain::c_api

namespace {

using elastictrain::c_api::complain;
using elastictrain::c_api::finish_of;
using elastictrain::c_api::guarded;
using elastictrain::c_api::null_argument;
using elastictrain::c_api::start_of;

}  // namespace

extern "C" {

et_status et_all_reduce_elsewhere_async(et_session* session, et_start_elsewhere start, et_finish_elsewhere finish,
                                        void* user_data) {
  if (session == nullptr || start == nullptr || finish == nullptr) return null_argument();
  return guarded([&] {
    session->session.all_reduce_elsewhere_async(start_of(session, start, user_data),
                                                finish_of(session, finish, user_data));
  });
}

et_status et_exchange_all_gather(et_exchange* exchange, const void* data, size_t bytes, void* gathered) {
  if (exchange == nullptr || (bytes != 0 && (data == nullptr || gathered == nullptr))) return null_argument();
  if (exchange->sum == nullptr) return complain(ET_ERROR_INVALID, "an exchange is possible only where a sum starts");
  et_status status = ET_OK;
  const et_status called = guarded([&] {
    const std::size_t room = bytes * exchange->sum->world_size;
    const auto why = exchange->sum->all_gather({static_cast<const std::byte*>(data), bytes},
                                               {static_cast<std::byte*>(gathered), room});
    if (!why.empty()) status = complain(ET_ERROR_INTERRUPTED, why.c_str());
  });
  return called == ET_OK ? status : called;
}

int et_exchange_is_broken(const et_exchange* exchange) {
  return exchange == nullptr || exchange->is_broken() ? 1 : 0;
}

}  // extern "C"
