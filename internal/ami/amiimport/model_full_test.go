//go:build e2e && full && linux

package amiimport_test

import "testing"

// Every fault at every call, and some again with a second fault in the run after it.
func TestAllImportsKeepTheirPromises(t *testing.T) {
	for _, s := range imports(t) {
		t.Run(s.Name, func(t *testing.T) { s.Enumerate(t, s.Cases(t, 6)) })
	}
}
