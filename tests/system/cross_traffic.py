"""Other traffic: datagrams to ADDRESS at a steady BITS_PER_S until killed. No process needs to listen there."""

import socket
import sys
import time

DISCARD_PORT = 9
PAYLOAD = bytes(1400)
ON_THE_WIRE_BITS = 8 * (len(PAYLOAD) + 42)  # with the headers of UDP, IP and Ethernet


def send_forever(address, bits_per_s):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        begin = time.monotonic()
        sent_bits = 0
        while True:
            due_bits = (time.monotonic() - begin) * bits_per_s
            while sent_bits < due_bits:
                datagrams.sendto(PAYLOAD, (address, DISCARD_PORT))
                sent_bits += ON_THE_WIRE_BITS
            time.sleep(0.001)


if __name__ == "__main__":
    send_forever(sys.argv[1], float(sys.argv[2]))
