// Package image tests the main job of the project without an AWS account. The
// test makes a cloud image, builds examples/disk of it with a real packer,
// audits the disk image, and starts two machines from it. Both machines must
// have an identity of their own.
//
// Run it with make image. It needs root, and installs its other requirements.
package image
