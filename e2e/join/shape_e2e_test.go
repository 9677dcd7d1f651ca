//go:build e2e

package join_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

var distro = flag.String("distro", "arch,amazonlinux2023", "shapes of TestChainOnShapes, separated by commas")

// The chain of TestChain on machines of other distributions' shapes. Their
// packages come from the distribution's own package manager.
func TestChainOnShapes(t *testing.T) {
	shapes := shape.All()
	for name := range strings.SplitSeq(*distro, ",") {
		s, ok := shapes[name]
		require.True(t, ok, "no shape %q: there are %v", name, slices.Sorted(maps.Keys(shapes)))
		t.Run(name, func(t *testing.T) {
			chain(t, lab.System{Shape: &s}, "chain-"+name)
		})
	}
}

// changedNothing requires that provisioning an image a second time, and once more
// after a restart, changed nothing.
func (w *world) changedNothing(reports string) {
	w.t.Helper()
	for _, run := range []struct{ name, file string }{
		{"provisioned", "provision.json"}, {"provisioned again", "again.json"}, {"provisioned after a restart", "restarted.json"},
	} {
		text, err := os.ReadFile(filepath.Join(reports, run.file))
		require.NoError(w.t, err)
		var r plan.Report
		require.NoError(w.t, json.Unmarshal(text, &r))
		var changed []string
		for _, o := range r.Outcomes {
			if o.Status == plan.Done {
				changed = append(changed, o.Item)
			}
		}
		if run.file == "provision.json" {
			assert.NotEmpty(w.t, changed)
		} else {
			assert.Empty(w.t, changed, run.name)
		}
		w.record(run.name, "", fmt.Sprintf("%d of %d steps changed something", len(changed), len(r.Outcomes)), r.Machine.Distro+" in "+r.Finished.Sub(r.Started).Round(time.Second).String())
	}
}
