package scrub

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// registeredSnapd is the state of a snapd with a serial number and a login.
const registeredSnapd = `{"data":{"api-download-tokens-secret":"kept","auth":{"last-id":1,` +
	`"users":[{"id":1,"email":"a@example.org","macaroon":"M","store-macaroon":"S","store-discharges":["D"]}],` +
	`"device":{"brand":"canonical","model":"ubuntu","serial":"07b0c1","key-id":"FjG1","session-macaroon":"MDAy"},"macaroon-key":"a2V5"},` +
	`"seeded":true,"snaps":{"core20":{"sequence":[{"name":"core20","revision":"2318"}],"current":"2318"}},"big":12345678901234567890},"last-change-id":9007199254740993}`

// A state of another form is a finding, so that the registration does not stay
// in silence.
func TestUnreadableStateOfSnapdIsAFinding(t *testing.T) {
	for text, reason := range map[string]string{
		`{"data":`: "EOF", `[]`: "the text does not start with {", `{"data":{"auth":{"device":"x"}}}`: "data: auth: device: the text does not start with {",
	} {
		t.Run(text, func(t *testing.T) {
			h, _ := tree(t, map[string]string{snapdState[1:]: text})
			answer, err := look(t, "snapd-state", h)
			require.NoError(t, err)
			require.Len(t, answer.Findings, 1)
			assert.Equal(t, "not readable as snapd's state ("+reason+"), so its serial number and logins stay: repair the file, or remove snapd with its data", answer.Findings[0].Reason)
		})
	}
}
