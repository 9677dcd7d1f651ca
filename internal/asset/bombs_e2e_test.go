//go:build e2e

package asset

import (
	"archive/tar"
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// Neither a valid nor a forged archive fills the disk with claimed sizes or
// compressed zeros.
func TestArchivesDoNotFillTheDisk(t *testing.T) {
	harmless := packed([]*tar.Header{regular("harmless")})
	const inflated = "the archive unpacks to more than 32 times its size"
	for name, test := range map[string]struct {
		data []byte
		err  string
	}{
		"sizes whose sum overflows": {append(harmless, sparse("evil", math.MaxInt64)...),
			"the archive unpacks to more than 2147483648 bytes"},
		"sizes whose sum overflows twice": {slices.Concat(sparse("a", math.MaxInt64), sparse("b", math.MaxInt64),
			sparse("c", 9)), "the archive unpacks to more than 2147483648 bytes"},
		"a hole": {sparse("evil", 1<<30), `the archive's member "evil" has holes`},
		"zeros":  {zeros("evil", 24<<20), inflated},
		"many zeros": {bytes.Join(slices.Collect(func(yield func([]byte) bool) {
			for i := range 8 {
				if !yield(zeros(strconv.Itoa(i), 3<<20)) {
					return
				}
			}
		}), nil), inflated},
		"headers without a member": {
			bytes.Repeat(extended("900000 comment="+strings.Repeat(" ", 900000-16)+"\n"), 26), inflated,
		},
		"names of many folders": {packed([]*tar.Header{regular(strings.Repeat("a/", 400_000) + "x")}),
			"the archive's member \"" + strings.Repeat("a/", 50) + "\"… has a name of more than 1024 bytes"},
		"folders without a member": {packed(below(100, 400)), "the archive has more than 10000 members"},
	} {
		for judged, forge := range map[string]bool{"": false, ", forged": true} {
			t.Run(name+judged, func(t *testing.T) {
				m := newMirror(t)
				m.put(archived, testkit.Gzip(test.data))
				if forge {
					m.put(archived, testkit.Gzip(""))
					m.files[archived] = testkit.Gzip(test.data)
				}
				h := newMachine(t, nil)
				mount(t, h, "opt/cni/bin", 0, "size=40m")
				err := h.refuses(t.Context(), t, hasty(), m.archive(archived))
				if forge {
					require.ErrorContains(t, err, "verifying cni-plugins 1.10.0: ")
				} else {
					require.EqualError(t, err, "unpacking cni-plugins 1.10.0: "+test.err+"; nothing was installed")
				}
			})
		}
	}
}
