// Package engines is test code. It reads and runs the documents of two AWS
// engines, by their documentation: components of EC2 Image Builder, and
// documents of Systems Manager. Unknown fields are errors, so that an example
// cannot have a field without effect.
package engines
