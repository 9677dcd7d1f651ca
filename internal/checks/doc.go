// Package checks tests the rules of the repository. It has tests only. They
// read the repository and fail when packages import against the allowed
// direction, when a page, a command in a page or a generated file differs from
// the code, or when the code breaks a rule that a program can check.
package checks
