// Package mirror lays the node's programs out as a plain web mirror of their
// upstream sites, and serves such a folder with faults on demand.
//
// It stands in for the internet in tests, images made offline and benchmarks:
// a file that upstream has at https://HOST/PATH lies at FOLDER/HOST/PATH, with
// its checksum file beside it in the form in which upstream publishes it. A
// user's own mirror may be laid out the same way with any copying tool.
package mirror
