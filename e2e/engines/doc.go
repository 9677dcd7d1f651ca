// Package engines is test code: it reads the documents of AWS's own engines as
// these are documented, EC2 Image Builder's components and Systems Manager's
// documents, and runs what they tell a machine to do. It refuses what it does
// not know, so that an example cannot hold a field that nobody reads.
package engines
