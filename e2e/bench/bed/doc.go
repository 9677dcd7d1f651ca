// Package bed is where the benchmarks that need a machine run: a lab with real
// machines, a line to each with the round trip of a distant region, Packer's
// own communicator over it, and the asset mirror behind such a line too.
package bed
