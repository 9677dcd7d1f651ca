// Package ebsdirect is test code: the EBS direct APIs (version 2019-11-02) of one
// account in one Region, for the real SDK. It refuses what AWS refuses. Where no source
// says what AWS does, a comment says so, and the double refuses more than AWS may, so
// that no client relies on it.
//
// Sources, cited in the code by these names:
//
//   - API: the API reference, https://docs.aws.amazon.com/ebs/latest/APIReference/
//   - model: the API's model, which the AWS CLI and the SDKs are made from
//   - UG: the user guide, https://docs.aws.amazon.com/ebs/latest/userguide/, with
//     the name of the page
//   - quotas: https://docs.aws.amazon.com/general/latest/gr/ebs-service.html
package ebsdirect
