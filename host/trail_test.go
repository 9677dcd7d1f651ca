//go:build linux

package host

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTrailListsLinksAndTarget(t *testing.T) {
	i := newImage(t)
	i.put(t, "usr/lib/systemd/systemd", "x")
	i.put(t, "data/v1/conf", "x")
	i.link(t, "usr/lib", "lib")
	i.link(t, "v1", "data/latest")
	i.link(t, "/data/latest", "current")
	i.link(t, "../../../../data", "usr/up")
	i.link(t, "circle", "circle")
	h := &Host{Files: i.Files, root: i.root}
	for name, c := range map[string]struct {
		follow bool
		links  []string
		place  string
	}{
		"/usr/lib/systemd":      {place: "/usr/lib/systemd"},
		"//lib//systemd/":       {links: []string{"/lib"}, place: "/usr/lib/systemd"},
		"/lib":                  {place: "/lib"},
		"/lib/":                 {follow: true, links: []string{"/lib"}, place: "/usr/lib"},
		"/current/conf":         {links: []string{"/current", "/data/latest"}, place: "/data/v1/conf"},
		"/usr/up/latest/none/x": {links: []string{"/usr/up", "/data/latest"}, place: "/data/v1/none/x"},
		"/lib/../up":            {follow: true, links: []string{"/lib", "/usr/up"}, place: "/data"},
		"/data/v1/conf/below":   {place: "/data/v1/conf/below"},
		"/":                     {place: "/"},
	} {
		links, place, err := h.Trail(name, c.follow)
		require.NoError(t, err, name)
		assert.Equal(t, c.links, links, name)
		assert.Equal(t, c.place, place, name)
	}
	_, _, err := h.Trail("/circle/x", false)
	require.EqualError(t, err, "resolving /circle/x: too many levels of symbolic links")
}
