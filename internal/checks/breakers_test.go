package checks

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// A setting that breaks nodes names a cause that diagnose knows, and the cause
// names the setting and the command that finds it.
func TestBreakersAndCausesHaveTheSameNames(t *testing.T) {
	causes := diagnose.Rules()
	for _, r := range scrub.Table() {
		if r.Breaks == nil {
			continue
		}
		i := slices.IndexFunc(causes, func(c diagnose.Rule) bool { return c.ID == r.Breaks.Cause })
		if assert.GreaterOrEqual(t, i, 0, "%s: diagnose knows no cause %s", r.ID, r.Breaks.Cause) {
			assert.Contains(t, causes[i].Settings, r.ID)
			assert.Contains(t, causes[i].Commands, "sudo eksnode audit --rules "+r.Breaks.Cause)
		}
	}
}
