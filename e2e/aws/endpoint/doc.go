// Package endpoint is test code: the part of the doubles of AWS that is the same
// for every service.
//
// One Endpoint answers for several services at one address, as clients see it
// when AWS_ENDPOINT_URL is set. It tells the services and regions apart by the
// scope of a call's signature, records every call, and refuses what no double
// understands, with an error that names it: a call, a parameter or a value that
// is silently ignored would let a test pass for the wrong reason.
//
// A service is a table of actions over one of the protocols EC2 (query string
// in, EC2's XML out), Query (the same with the XML of STS and IAM) and JSON
// (SSM's). Signatures are not verified; the access key is compared, so that no
// real credentials reach a double unnoticed.
package endpoint
