// The one place where Asio's own functions are compiled (ASIO_SEPARATE_COMPILATION).
#include <asio/impl/src.hpp>
