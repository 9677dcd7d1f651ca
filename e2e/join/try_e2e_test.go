//go:build e2e

package join_test

import (
	"os"
	"testing"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
)

func TestTryShape(t *testing.T) {
	s := shape.All()[os.Getenv("SHAPE")]
	l := lab.Open(t, time.Hour, machine.Nspawn)
	l.Use(t, lab.System{Shape: &s})
	n := l.Start(t, machine.Config{Kind: machine.Nspawn, Root: l.Root, InstanceID: "i-try"})
	t.Log(n.Try(t, os.Getenv("SCRIPT")))
}
