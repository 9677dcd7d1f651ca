// Package scrub_test scrubs and audits with the real command: killed at any
// point, on a machine where real services have left their state, and on a
// captured image.
//
// The tests need root, and install what else they need. Run them with
//
//	go test -count=1 -tags e2e -timeout 45m ./e2e/scrub
package scrub_test
