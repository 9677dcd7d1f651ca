package preflight

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

// FuzzEndpointPolicy evaluates policies of endpoints, and the policies that remedies
// write.
func FuzzEndpointPolicy(f *testing.F) {
	for _, seed := range []string{
		fullAccess, `{}`, `{"Statement":null}`, `{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::mine/*"}}`,
		`{"Statement":[{"Effect":"Deny","Principal":{"AWS":["*"]},"NotAction":"s3:Get?bject","NotResource":["arn:*"],"Condition":{"Bool":{"a":"b"}}}]}`,
		`{"statement":[{"effect":"Allow","principal":{"Service":"x"},"action":["*"],"resource":"*"}]}`, `{"Statement":[null,1]}`, `[]`,
	} {
		f.Add(seed, "s3:GetObject", "arn:aws:s3:::prod-eu-west-1-starport-layer-bucket/layer")
		f.Add(seed, "ec2:DescribeInstances", "*")
	}
	f.Fuzz(func(t *testing.T, text, action, resource string) {
		var before, after endpointPolicy
		if json.Unmarshal([]byte(text), &before) != nil {
			return
		}
		c := call{action, resource}
		said, denied := before.about(c)
		written, err := extended(text, c)
		if err != nil || said != refused || denied {
			return
		}
		assert.NoError(t, json.Unmarshal([]byte(written), &after))
		if now, _ := after.about(call{rewritten(action), rewritten(resource)}); rewritten(action) == action && rewritten(resource) == resource {
			assert.Equal(t, allowed, now, written)
		}
	})
}

// rewritten is a text as encoding/json writes and reads it.
func rewritten(text string) string {
	var back string
	written, err := json.Marshal(text)
	if err != nil || json.Unmarshal(written, &back) != nil {
		return ""
	}
	return back
}
