//go:build linux

package remote

import (
	"strings"
	"sync"
	"testing"
	"time"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/require"
)

// screen is what a person sees.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) ui() packersdk.Ui { return &packersdk.BasicUi{Writer: s} }

func (s *screen) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Split(strings.TrimSuffix(s.text.String(), "\n"), "\n")
}

// rest waits for a line that starts with prefix and gives what follows.
func (s *screen) rest(t *testing.T, prefix string) string {
	var rest string
	require.Eventually(t, func() bool {
		for _, line := range s.lines() {
			var found bool
			if rest, found = strings.CutPrefix(line, prefix); found {
				return true
			}
		}
		return false
	}, 30*time.Second, time.Millisecond, "no line starts with %q", prefix)
	return rest
}
