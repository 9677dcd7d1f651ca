// Package firstboot proves that a scrub takes away all that a first boot
// writes: it has the tests only. They need root, for mounts in a namespace of
// their own.
package firstboot
