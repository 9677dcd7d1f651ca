package lab

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
)

// System is a base system. The zero value is the harness's usual Debian.
type System struct {
	// Suite is another Debian release.
	Suite string
	// Shape is a system of another distribution's shape.
	Shape *shape.Shape
	// Containerd is the field containerd of the provisioner. It needs a template
	// with that variable.
	Containerd string
}

// needsRuntime reports whether the distribution downloads containerd and runc.
func (s System) needsRuntime(t *testing.T) bool {
	t.Helper()
	if s.Shape == nil {
		return s.Containerd != ""
	}
	d, err := distros.ByID(s.Shape.ID)
	require.NoError(t, err)
	return len(d.Upstream) > 0
}

// Use makes the lab's machines start from a system, and serves its packages.
func (l *Lab) Use(t *testing.T, s System) {
	t.Helper()
	var err error
	switch {
	case s.Shape != nil:
		var repository string
		l.Root, repository, err = s.Shape.Prepare(l.Ctx, t.Output())
		require.NoError(t, err)
		l.User = s.Shape.User
		require.NoError(t, l.Serve(l.Ctx, l.Port(shape.Port), http.FileServer(http.Dir(repository))))
	case s.Suite != "":
		l.Root, err = (base.Debian{Suite: s.Suite}).Prepare(l.Ctx, t.Output())
		require.NoError(t, err)
	}
}
