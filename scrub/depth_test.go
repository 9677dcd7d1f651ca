//go:build linux

package scrub

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// BenchmarkDepth audits folders in folders, twice as deep each time, and prints
// how many times longer each depth takes. A search that looks at every folder
// above a file takes eight times longer: paths grow too.
func BenchmarkDepth(b *testing.B) {
	var before float64
	for _, depth := range []int{250, 500, 1000} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			h := hosttest.Root(b, map[string]string{"etc/passwd": passwd, strings.Repeat("/abc", depth) + "/": ""})
			items, err := Spec{Only: []string{"secrets-left"}}.AuditItems(nil)
			require.NoError(b, err)
			for b.Loop() {
				plan.Make(b.Context(), h, items)
			}
			now := float64(b.Elapsed()) / float64(b.N)
			if before > 0 {
				b.ReportMetric(now/before, "times-longer")
			}
			before = now
		})
	}
}
