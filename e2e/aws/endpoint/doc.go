// Package endpoint is test code. It holds the part of the AWS doubles that is
// the same for every service.
//
// One Endpoint serves several services at one address, as clients use it when
// AWS_ENDPOINT_URL is set. The scope of a call's signature names the service
// and the region. The Endpoint records every call. It refuses an unsupported
// call, parameter or value with an error that names it: if these were ignored,
// a test could pass for the wrong reason.
//
// A service is a table of actions over one protocol: EC2 (query string in,
// EC2's XML out), Query (the same with the XML of STS and IAM) or JSON (SSM's).
// Signatures are not verified. The access key is compared, so that no real
// credentials reach a double unnoticed.
package endpoint
