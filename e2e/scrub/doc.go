// Package scrub_test tests scrub and audit with the real command: killed at any
// point, on a machine with the state of real services, and on a captured image.
//
// The tests need root, and install their other requirements. Run them with
//
//	go test -count=1 -tags e2e -timeout 45m ./e2e/scrub
package scrub_test
