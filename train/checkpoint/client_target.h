// Purpose: checkpoints in a store that a client program reaches, for example an object store.
//
// The program is called with a verb and where:
//   list PLACE           prints a line "BYTES NAME" for each file in PLACE itself; nothing if there is none
//   get PLACE/NAME       prints the file
//   put PLACE/NAME BYTES reads the file, of that length, from its standard input; it appears whole or not at all
//   remove PLACE/NAME    no error if it is not there
// and ends with status 0, or with another one and a sentence on standard error. "aws" and "rclone" stand for these
// calls of the AWS command line (s3://bucket/prefix) and of rclone (rclone://remote/path is its remote:path).
//
// A file is sent while it is made: nothing of it is kept on this machine. A call that takes longer than the client's
// timeout is ended, with its process group. Manifests and fences that were read are remembered by name and length: they
// never change.
#pragma once

#include <memory>
#include <string>

#include "train/checkpoint/target.h"

namespace elastictrain::checkpoint {

std::unique_ptr<Target> make_client_target(std::string place, Client client);

}  // namespace elastictrain::checkpoint
