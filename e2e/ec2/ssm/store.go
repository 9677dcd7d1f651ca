package ssm

import (
	"context"
	"maps"
	"regexp"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// Parameter is a parameter that somebody has put.
type Parameter struct {
	Value, Type, DataType string
	// Version counts how often it has been put.
	Version int
}

// Store is the parameters of an account, which it may also put. Its methods may
// be called from several goroutines.
type Store struct {
	mutex      sync.Mutex
	parameters map[string]map[string]Parameter // by region and name
}

type putParameterIn struct {
	Name, Value, Type, DataType string
	Overwrite                   bool
}

type putParameterOut struct {
	Version int
	Tier    string
}

var imageID = regexp.MustCompile(`^ami-[0-9a-f]{8,17}$`)

// Service answers for SSM.
func (s *Store) Service() endpoint.Service {
	return endpoint.Service{Name: "ssm", Protocol: endpoint.JSON{}, Actions: map[string]endpoint.Action{
		"GetParameter": endpoint.Handle(s.get), "PutParameter": endpoint.Handle(s.put),
	}}
}

func (s *Store) get(_ context.Context, call endpoint.Call, in getParameterIn) (getParameterOut, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	p, known := s.parameters[call.Region][in.Name]
	if !known {
		return getParameterOut{}, endpoint.Fail("ParameterNotFound", "the parameter %q does not exist", in.Name)
	}
	return getParameterOut{parameter{
		Name: in.Name, Type: p.Type, Value: p.Value, Version: p.Version, DataType: p.DataType,
		ARN: "arn:aws:ssm:" + call.Region + "::parameter" + in.Name,
	}}, nil
}

// put looks at an image's id for its form only; SSM asks EC2 for it, too.
func (s *Store) put(_ context.Context, call endpoint.Call, in putParameterIn) (putParameterOut, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	old, known := s.parameters[call.Region][in.Name]
	switch {
	case known && !in.Overwrite:
		return putParameterOut{}, endpoint.Fail("ParameterAlreadyExists", "the parameter %q exists", in.Name)
	case in.DataType == "aws:ec2:image" && !imageID.MatchString(in.Value):
		return putParameterOut{}, endpoint.Fail("ValidationException", "%q is no image's id", in.Value)
	}
	if s.parameters == nil {
		s.parameters = map[string]map[string]Parameter{}
	}
	if s.parameters[call.Region] == nil {
		s.parameters[call.Region] = map[string]Parameter{}
	}
	s.parameters[call.Region][in.Name] = Parameter{in.Value, in.Type, in.DataType, old.Version + 1}
	return putParameterOut{old.Version + 1, "Standard"}, nil
}

// Publish puts an image's id into a parameter, as publishers do.
func (s *Store) Publish(region, name, image string) error {
	_, err := s.put(context.Background(), endpoint.Call{Region: region}, putParameterIn{Name: name, Value: image, Type: "String", DataType: "aws:ec2:image"})
	return err
}

// Parameters are those of a region, by name.
func (s *Store) Parameters(region string) map[string]Parameter {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return maps.Clone(s.parameters[region])
}
