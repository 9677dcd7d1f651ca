package preflight

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

func TestEveryCheckHasACase(t *testing.T) {
	text := testkit.Content(t, casesFile)
	for _, name := range testkit.Glob(t, "*_test.go") {
		text += testkit.Content(t, name)
	}
	for _, c := range Table() {
		inData := strings.Contains(text, "- check: "+c.ID+"\n")
		assert.True(t, inData || strings.Contains(text, `{"`+c.ID+`", "`), "the check %s has no case", c.ID)
		assert.NotEmpty(t, c.Question)
		assert.NotEmpty(t, c.Why)
		assert.NotNil(t, c.look, "the check %s has no function", c.ID)
		for _, need := range c.Needs {
			assert.Contains(t, new(facts).byName(), need, c.ID)
		}
	}
	assert.Len(t, Table(), len(looks()), "a function has no check")
}

// endpoints returns the VPC endpoints that nodes without a route to the internet need.
func endpoints() []awsapi.Endpoint {
	var list []awsapi.Endpoint
	for i, service := range []string{"ec2", "ecr.api", "ecr.dkr", "s3", "sts", "eks"} {
		e := awsapi.Endpoint{
			ID: fmt.Sprintf("vpce-%d", i), Service: "com.amazonaws.eu-west-1." + service, State: "available",
			PrivateDNS: true, Interface: true, Policy: fullAccess, Subnets: []string{"subnet-1"},
			Groups: []string{"sg-cluster"},
		}
		if service == "s3" {
			e.Interface, e.PrivateDNS, e.Subnets, e.Groups, e.Tables = false, false, nil, nil,
				[]string{"rtb-1", "rtb-main"}
		}
		list = append(list, e)
	}
	return list
}
