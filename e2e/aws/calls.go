//go:build linux

package aws

import (
	_ "embed"
	"maps"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// service is a row of calls.yaml.
type service struct {
	Protocol, Version string
	// Moto are the calls that moto carries out, with the parameters that it uses.
	Moto map[string]string
	Ours []struct{ Why, Calls string }
	// Pages are the lists that AWS may split.
	Pages  string
	Routes map[string]string
}

//go:embed calls.yaml
var callsFile []byte

var calls = sync.OnceValue(func() (all map[string]service) {
	if err := yaml.UnmarshalStrict(callsFile, &all); err != nil {
		panic(err) // a fault of the file
	}
	return all
})

// protocol returns the protocol of a service.
func protocol(name string) endpoint.Protocol {
	s := calls()[name]
	return map[string]endpoint.Protocol{
		"EC2": endpoint.EC2{Version: s.Version}, "Query": endpoint.Query{Version: s.Version}, "JSON": endpoint.JSON{},
		"REST":    endpoint.REST{Routes: s.Routes},
		"RESTXML": endpoint.RESTXML{REST: endpoint.REST{Routes: s.Routes}},
	}[s.Protocol]
}

// services are all services, with the world's faults.
func (w *World) services() (all []endpoint.Service) {
	actions := w.own()
	maps.Copy(actions, w.setup())
	for name, row := range calls() {
		s := endpoint.Service{Name: name, Protocol: protocol(name), Actions: map[string]endpoint.Action{}}
		for short, parameters := range row.Moto {
			s.Actions[short] = w.forwarded(strings.Fields(parameters))
		}
		for full, action := range actions {
			if of, short, _ := strings.Cut(full, ":"); of == name {
				s.Actions[short] = action
			}
		}
		all = append(all, w.wrap(s))
	}
	return all
}
