#include "train/comm/operation_kind.h"

namespace elastictrain::comm {
namespace {

std::string name_of(char kind) {
  if (kind == kShareKind) return "an exchange of bytes";
  if (kind == kind_of_sum(Element::kFloat32)) return "a sum of float32";
  if (kind == kind_of_sum(Element::kFloat16)) return "a sum of float16";
  if (kind == kind_of_sum(Element::kBfloat16)) return "a sum of bfloat16";
  return "another operation";
}

}  // namespace

char kind_of_sum(Element element) {
  switch (element) {
    case Element::kFloat16:
      return 'h';
    case Element::kBfloat16:
      return 'b';
    case Element::kFloat32:
      break;
  }
  return 'a';
}

std::string kinds_text(char here, char there) {
  return here == there ? "" : " It is " + name_of(here) + " here and " + name_of(there) + " there.";
}

}  // namespace elastictrain::comm
