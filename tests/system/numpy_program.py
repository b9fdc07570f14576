"""A program with elastictrain.Session and numpy: a straight line through points, of which each worker has a part."""

import numpy

import elastictrain

POINTS = numpy.linspace(-1, 1, 1000, dtype=numpy.float32)
TRUE = numpy.array([0.5, 2.0], dtype=numpy.float32)  # y = 0.5 + 2 x


def gradient_of(weights, samples):
    x = POINTS[list(samples)]
    error = weights[0] + weights[1] * x - (TRUE[0] + TRUE[1] * x)
    return numpy.array([error.mean(), (error * x).mean()], dtype=numpy.float32)


def main():
    weights = numpy.zeros(2, dtype=numpy.float32)
    session = elastictrain.Session()
    session.share_model("weights", weights)
    session.set_data(sample_count=len(POINTS), epochs=40, batch=50)
    go = session.start()
    while go and (batch := session.next_batch()) is not None:
        gradient = gradient_of(weights, batch.samples) if batch.local_samples else numpy.zeros_like(weights)
        session.all_reduce(gradient)
        weights -= 0.5 * gradient
        session.commit_step(loss=float(numpy.abs(weights - TRUE).max()))
    assert numpy.allclose(weights, TRUE, atol=1e-3), weights
    print(f"rank {session.rank} of {session.world_size}: {weights}", flush=True)


if __name__ == "__main__":
    main()
