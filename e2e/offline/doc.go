// Package offline tests `eksnode provision --root`: a node image without a machine, as
// the same provision makes it on a booted machine.
//
//	go test -tags e2e ./e2e/offline -v
//
// The tests need root and install their other requirements; see package machine.
package offline
