// Package image is the project's main job without an AWS account: its test makes
// a base system, boots it as a real machine, runs a real packer build of
// examples/local on it, captures the scrubbed machine as a disk image, audits
// the image, and starts two machines from it to prove that they are new.
//
// Run it by make image. It needs root, and installs what else it needs.
package image
