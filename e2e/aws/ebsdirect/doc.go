// Package ebsdirect is test code: the EBS direct APIs (version 2019-11-02) of one
// account in one Region, for the real SDK. It refuses what AWS refuses. A rule
// without a source in the API's model or the user guide is stricter than AWS, so
// that no client relies on what AWS may refuse.
//
// Sources, cited in the code by these names:
//
//   - API: the API reference, https://docs.aws.amazon.com/ebs/latest/APIReference/
//   - UG: the user guide, https://docs.aws.amazon.com/ebs/latest/userguide/, with
//     the name of the page
//   - quotas: https://docs.aws.amazon.com/general/latest/gr/ebs-service.html
package ebsdirect
