// Package diskbuild turns a disk image into another one, without a machine. It copies the
// base image, makes the copy larger, has a function of this program work in its mounted
// file systems, and gives the result its name. Until then the copy has no name: nothing
// of a failed or killed build stays. The base image is only read.
//
// It may import asset, disk, diskaudit, distros, expand, sandbox, show and surface.
package diskbuild
