// Purpose: the factor by which tests wait longer in a build with a sanitizer. For deadlines of tests only.
#pragma once

namespace elastictrain::testing {

#if defined(__SANITIZE_THREAD__)
inline constexpr int kSlowdown = 5;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr int kSlowdown = 3;
#else
inline constexpr int kSlowdown = 1;
#endif

}  // namespace elastictrain::testing
