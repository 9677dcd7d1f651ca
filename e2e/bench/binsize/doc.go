// Package binsize tells how large a Go program is and what in it is large, in
// two ways that each tell a part of the truth.
//
// A probe is a small program that uses one dependency as the real one does;
// what it is larger than a program without the dependency is what that adds.
// Dependencies share packages, so a probe is built twice: the dependency alone,
// and on top of all others. Leaving it out of the real program saves something
// between the two.
//
// The symbol table of the real program tells which module its code and data
// come from. The tables of the linker (line numbers, types, strings) belong to
// nobody there and are shown as what they are.
package binsize
