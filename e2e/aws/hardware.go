//go:build linux

package aws

import (
	"encoding/json"
	"encoding/xml"
	"regexp"

	"github.com/stretchr/testify/require"
)

// Health is the result of EC2's checks of instances. Empty fields are ok.
type Health struct {
	System, Instance, Storage string
	// Event is the description of a scheduled event, or empty.
	Event string
}

type statusOut struct {
	Statuses []instanceStatus `xml:"instanceStatusSet>item"`
}

type instanceStatus struct {
	ID       string  `xml:"instanceId"`
	System   string  `xml:"systemStatus>status"`
	Instance string  `xml:"instanceStatus>status"`
	Storage  string  `xml:"attachedEbsStatus>status"`
	Events   []event `xml:"eventsSet>item,omitempty"`
}

type event struct {
	XMLName     xml.Name `xml:"item"`
	Code        string   `xml:"code"`
	Description string   `xml:"description"`
}

// describeInstanceStatus returns the world's health of instances. In moto every
// instance is healthy.
func (w *World) describeInstanceStatus(_ string, in struct {
	IDs []string `query:"InstanceId"`
}) (statusOut, error) {
	ok := func(said string) string {
		if said == "" {
			return "ok"
		}
		return said
	}
	var out statusOut
	for _, id := range in.IDs {
		s := instanceStatus{ID: id, System: ok(w.Health.System), Instance: ok(w.Health.Instance), Storage: ok(w.Health.Storage)}
		if w.Health.Event != "" {
			s.Events = []event{{Code: "instance-retirement", Description: w.Health.Event}}
		}
		out.Statuses = append(out.Statuses, s)
	}
	return out, nil
}

type encryptionOut struct {
	On bool `xml:"ebsEncryptionByDefault"`
}

type defaultKeyOut struct {
	Key string `xml:"kmsKeyId"`
}

func (w *World) encryptionByDefault(string, struct{}) (encryptionOut, error) {
	return encryptionOut{w.DefaultKey != "" || w.ebs != nil && w.ebs.EncryptByDefault}, nil
}

func (w *World) defaultKey(string, struct{}) (defaultKeyOut, error) {
	switch {
	case w.DefaultKey != "":
		return defaultKeyOut{w.DefaultKey}, nil
	case w.ebs != nil && w.ebs.EncryptByDefault:
		return defaultKeyOut{w.ebs.DefaultKey}, nil
	}
	return defaultKeyOut{"alias/aws/ebs"}, nil
}

// Key makes a KMS key with a policy and returns its ARN. An empty policy lets only
// the account's own IAM policies decide.
func (w *World) Key(policy string) string {
	w.t.Helper()
	if policy == "" {
		policy = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + Account + `:root"},"Action":"kms:*","Resource":"*"}]}`
	}
	in, err := json.Marshal(map[string]string{"Policy": policy})
	require.NoError(w.t, err)
	made := regexp.MustCompile(`"Arn": *"(.*?)"`).FindSubmatch(w.Do("kms:CreateKey", string(in)))
	require.NotNil(w.t, made)
	return string(made[1])
}
