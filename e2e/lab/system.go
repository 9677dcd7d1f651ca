package lab

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// System is a base system. The zero value is the harness's usual Debian.
type System struct {
	// Suite is another Debian release.
	Suite string
	// Shape is a system of another distribution's shape.
	Shape *shape.Shape
}

// kubelet returns the newest version of the kubelet that runs on the system.
func (s System) kubelet(t *testing.T) string {
	t.Helper()
	tool, version, err := tools.Find(tools.NameKubelet, "")
	require.NoError(t, err)
	if s.Shape == nil {
		return version
	}
	d, err := distros.ByID(s.Shape.ID)
	require.NoError(t, err)
	for _, version := range tool.Versions {
		if d.NewestKubernetes == 0 || strings.HasPrefix(version, fmt.Sprintf("1.%d.", d.NewestKubernetes)) {
			return version
		}
	}
	require.FailNow(t, "the table of versions has no kubelet for "+d.Name)
	return ""
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
