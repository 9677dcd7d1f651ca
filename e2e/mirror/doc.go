// Package mirror lays out the node's programs as a plain web mirror of their
// upstream sites, and serves such a folder with optional faults.
//
// The mirror replaces the internet in tests, offline images and benchmarks. A
// file at https://HOST/PATH lies at FOLDER/HOST/PATH. Its checksum file lies
// next to it in upstream's format. A user can make a mirror with the same
// layout with any copying tool.
package mirror
