// Package sts is test code: as much of a double of AWS STS as clients need that
// check their credentials before they begin.
package sts

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

type identity struct {
	ARN     string `xml:"Arn"`
	UserID  string `xml:"UserId"`
	Account string
}

// Service answers for STS, telling every caller that it is a user of the
// account.
func Service(account string) endpoint.Service {
	return endpoint.Service{Name: "sts", Protocol: endpoint.Query{Version: "2011-06-15"}, Actions: map[string]endpoint.Action{
		"GetCallerIdentity": endpoint.Handle(func(context.Context, endpoint.Call, struct{}) (identity, error) {
			return identity{ARN: "arn:aws:iam::" + account + ":user/double", UserID: "AIDADOUBLE", Account: account}, nil
		}),
	}}
}
