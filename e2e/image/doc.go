// Package image tests the main job of the project without an AWS account. The
// test makes a base system, boots it as a real machine, builds examples/local
// on it with a real packer, captures the scrubbed machine as a disk image,
// audits the image, and starts two machines from it. Both machines must have an
// identity of their own.
//
// Run it with make image. It needs root, and installs its other requirements.
package image
