//go:build e2e

package userdata

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// timeToCheck is how long a check of any user data may take on a busy machine.
const timeToCheck = 60 * time.Second

// Whatever 1 MiB of user data holds, every family's check ends.
func TestChecksEnd(t *testing.T) {
	slow := slowTexts(t)
	for kind, texts := range slow {
		for name, text := range texts {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				assert.LessOrEqual(t, len(text), maxText)
				switch kind {
				case "shells":
					endsInTime(t, script+text, "")
				case "others": // a person may name any family
					for _, family := range append(IDs(), "") {
						endsInTime(t, text, family)
					}
				default:
					endsInTime(t, text, "")
				}
			})
		}
	}
	for _, name := range []string{"doubling variables", "files"} {
		text := strings.ReplaceAll(slow["shells"][name], "\n", "\n    ")
		config := "#cloud-config\nwrite_files:\n- path: /a\n  content: |\n    #!/bin/bash\n    " + text
		endsInTime(t, config+"\nruncmd: [/a]\n", "")
	}
}

// endsInTime checks a text, whose messages must be bounded too.
func endsInTime(t *testing.T, text, family string) {
	t.Helper()
	ended := make(chan int, 1)
	go func() {
		r, err := Check([]byte(text), family)
		said := len(fmt.Sprint(err))
		for _, p := range r.Problems {
			said += len(p.String())
		}
		ended <- said
	}()
	select {
	case said := <-ended:
		assert.Less(t, said, 300_000)
	case <-time.After(timeToCheck):
		require.Fail(t, "the check does not end", "family %q", family)
	}
}
