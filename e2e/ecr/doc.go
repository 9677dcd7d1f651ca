// Package ecr has the tests of images from ECR: Debian's registry under a name
// of ECR's, which lets in whom the double of ECR's API gave a token, behind a
// line that counts and breaks.
package ecr
