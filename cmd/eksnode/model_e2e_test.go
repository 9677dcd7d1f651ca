//go:build e2e && linux && !agent

package main

import "testing"

// Every fault at every call, and some again with a second fault in the run after it.
func TestAllFleetsKeepTheirPromises(t *testing.T) {
	for _, s := range fleets(t) {
		t.Run(s.Name, func(t *testing.T) { s.Enumerate(t, s.Cases(t, 6)) })
	}
}
