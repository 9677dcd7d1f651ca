package preflight

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// FuzzTrust reads any trust policy. The remedy repeats all of its statements.
func FuzzTrust(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"Statement":[]}`, `{"Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::1:root"},"Action":"sts:AssumeRole","Condition":{"StringEquals":{"a":["b",1]}}}}`,
		`{"Version":"2012-10-17","Id":"x","Statement":[{"Effect":"Deny","Principal":"*","Action":"*"}]}`, `{"Statement":[{"Sid":"it's"}]}`, `[]`, `{"Statement":1}`, `{"Statement":null}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, trust string) {
		trusts(trust, "pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession")
		(&facts{}).webFault(&awsapi.Role{Trust: trust})
		r := checkTrust(&facts{profile: fact[awsapi.Profile]{value: awsapi.Profile{Name: "p", Role: &awsapi.Role{Name: "node", Trust: trust}}}})
		_, document, put := strings.Cut(r.remedy, "aws iam update-assume-role-policy --role-name node --policy-document ")
		if !put {
			return
		}
		type policy struct {
			Version, ID string
			Statement   oneOrMore[map[string]any]
		}
		var before, after policy
		require.NoError(t, json.Unmarshal([]byte(trust), &before))
		document = strings.ReplaceAll(strings.Trim(document, "'"), `'\''`, "'")
		require.NoError(t, json.Unmarshal([]byte(document), &after), document)
		was := slices.DeleteFunc(append([]map[string]any{}, before.Statement...), func(s map[string]any) bool { return s == nil })
		require.Len(t, after.Statement, len(was)+1)
		assert.Equal(t, was, []map[string]any(after.Statement[:len(was):len(was)]))
	})
}
