package checks

import "testing"

// go.mod and go.sum are as `go mod tidy` leaves them; it prints a difference,
// and fails, where they are not.
func TestModulesAreTidy(t *testing.T) {
	run(t, "go", "mod", "tidy", "-diff")
}
