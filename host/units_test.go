//go:build linux

package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// systemctl installs a systemctl that behaves like systemd 219: no --value, and a
// block for each unit, also for unknown units.
func systemctl(t *testing.T, script string) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "systemctl"), []byte("#!/bin/sh\n"+script), 0o755))
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
}

func TestActiveWorksWithSystemd219(t *testing.T) {
	h := live(t)
	systemctl(t, `case "$*" in *--value*) echo "systemctl: unrecognized option '--value'" >&2; exit 1;; esac
[ "$1 $2" = "show --property=ActiveState" ] || exit 1
shift 2
for unit; do
  case $unit in
  a.service) echo ActiveState=active;; b.service) echo ActiveState=deactivating;; c.service) echo ActiveState=failed;; *) echo ActiveState=inactive;;
  esac
  echo
done`)
	active, err := h.Active(t.Context(), "unknown.service", "a.service", "c.service", "b.service")
	require.NoError(t, err)
	assert.Equal(t, []string{"a.service", "b.service"}, active)
	for unit, want := range map[string]bool{"a.service": true, "b.service": true, "c.service": false, "d.service": false} {
		is, err := h.IsActive(t.Context(), unit)
		require.NoError(t, err)
		assert.Equal(t, want, is, unit)
	}
}

func TestQueuedUnitsAreThoseToStart(t *testing.T) {
	h := live(t)
	systemctl(t, `printf '   1 a.service start waiting\n 142 b.service restart running\n143 c.service stop running\nNo jobs running.\n'`)
	queued, err := h.Queued(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"a.service", "b.service"}, queued)
	systemctl(t, "echo no bus >&2; exit 1")
	_, err = h.Queued(t.Context())
	require.ErrorContains(t, err, "no bus")
}

func TestTruncatedSystemctlOutputIsAnError(t *testing.T) {
	h := live(t)
	systemctl(t, "echo ActiveState=active")
	_, err := h.Active(t.Context(), "a.service", "b.service")
	require.EqualError(t, err, `reading the property ActiveState of a.service, b.service: systemctl printed "ActiveState=active\n"`)
	systemctl(t, "echo no bus >&2; exit 1")
	_, err = h.Active(t.Context(), "a.service")
	require.ErrorContains(t, err, "no bus")
}
