#include <elastictrain/session.hpp>

int main() {
  float weight = 0;
  float gradient = 0;
  elastictrain::Session session;
  session.share_state("weight", &weight, sizeof weight);
  session.set_data({.sample_count = 640, .epochs = 2, .batch = 8});
  if (!session.start()) return 0;
  while (auto batch = session.next_batch()) {
    gradient = weight - 3.0F;
    session.all_reduce(&gradient, 1);
    weight -= 0.5F * gradient;
    session.commit_step();
  }
  return weight > 2.9F ? 0 : 1;
}
