package machine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAwait(t *testing.T) {
	for name, test := range map[string]struct{ messages, want string }{
		"done":          {`{"return": {}}`, ""},
		"events before": {`{"event": "POWERDOWN"}{"event": "RESUME"}{"return": {}}`, ""},
		"refused":       {`{"event": "RESUME"}{"error": {"class": "GenericError", "desc": "no such command"}}`, "no such command"},
		"ended":         {`{"event": "POWERDOWN"}`, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			err := await(json.NewDecoder(strings.NewReader(test.messages)))
			if test.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, test.want)
		})
	}
}
