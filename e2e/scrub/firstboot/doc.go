// Package firstboot tests that a scrub removes everything that a first boot
// writes. It has tests only. They need root, for mounts in a namespace of their
// own.
package firstboot
