// Package ecr tests images from ECR. The registry is Debian's, under a name of
// ECR. It accepts tokens of the ECR API's double, and a proxy before it counts
// bytes and breaks connections.
package ecr
