package aws

import (
	"context"
	"encoding/base64"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// ecr gives out logins of the registries of the account.
func (w *World) ecr() endpoint.Service {
	return endpoint.Service{Name: "ecr", Protocol: endpoint.JSON{}, Actions: map[string]endpoint.Action{
		"GetAuthorizationToken": endpoint.Handle(w.getAuthorizationToken),
	}}
}

type authorizationData struct {
	Token   string  `json:"authorizationToken"`
	Expires float64 `json:"expiresAt"`
	Proxy   string  `json:"proxyEndpoint"`
}

type getAuthorizationTokenOut struct {
	Data []authorizationData `json:"authorizationData"`
}

func (w *World) getAuthorizationToken(_ context.Context, call endpoint.Call, _ struct{}) (getAuthorizationTokenOut, error) {
	if w.RegistryPassword == "" {
		return getAuthorizationTokenOut{Data: []authorizationData{}}, nil
	}
	return getAuthorizationTokenOut{[]authorizationData{{
		Token:   base64.StdEncoding.EncodeToString([]byte("AWS:" + w.RegistryPassword)),
		Expires: 1.8e9, Proxy: "https://" + Account + ".dkr.ecr." + call.Region + ".amazonaws.com",
	}}}, nil
}
