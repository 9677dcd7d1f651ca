//go:build e2e && full && linux

package snapshot_test

import "testing"

// Every fault at every call, and some again with a second fault in the run after it.
func TestAllAuditsGetTheDiskOrNone(t *testing.T) {
	s := audit(t)
	s.Enumerate(t, s.Cases(t, 6))
}
