// Package checks keeps the house in order. It has no code of its own: its tests
// read the repository and fail when the rooms import against their direction,
// when a page, a command in a page or a generated file has drifted from the
// code, or when a house rule that a program can see is broken.
package checks
